package main

import (
	"bytes"
	"context"
	"fmt"
	"text/template"

	"drydock.dev/test/cluster/host"
	"drydock.dev/test/cluster/knative"
)

// kubectl runs kubectl. Without a namespace, the objects must name theirs. Without a kubeconfig, it uses the environment's.
type kubectl struct{ binary, kubeconfig, namespace string }

func (k kubectl) run(ctx context.Context, args ...string) (string, error) {
	return k.runWithInput(ctx, nil, args...)
}

func (k kubectl) runWithInput(ctx context.Context, input []byte, args ...string) (string, error) {
	var common []string
	if k.kubeconfig != "" {
		common = append(common, "--kubeconfig", k.kubeconfig)
	}
	if k.namespace != "" {
		common = append(common, "--namespace", k.namespace)
	}
	return host.RunWithInput(ctx, input, k.binary, append(common, args...)...)
}

// create renders a template of objects and creates them.
func (k kubectl) create(ctx context.Context, manifest string, values map[string]any) error {
	parsed, err := template.New("manifest").Option("missingkey=error").Parse(manifest)
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	var rendered bytes.Buffer
	if err := parsed.Execute(&rendered, values); err != nil {
		return fmt.Errorf("rendering the manifest: %w", err)
	}
	_, err = k.runWithInput(ctx, rendered.Bytes(), "create", "-f", "-")
	return err
}

// removeNamespace cleans up after a failure.
func (k kubectl) removeNamespace(ctx context.Context) error {
	_, err := k.run(ctx, "delete", "namespace", k.namespace, "--ignore-not-found", "--wait=false")
	return err
}

// field returns a field of an object, selected by its JSON path.
func (k kubectl) field(ctx context.Context, object, path string) (string, error) {
	return k.run(ctx, "get", object, "--output", "jsonpath={"+path+"}")
}

// waitField waits until a field of an object has a value.
func (k kubectl) waitField(ctx context.Context, object, path, value string) error {
	_, err := k.run(ctx, "wait", object, fmt.Sprintf("--for=jsonpath={%s}=%s", path, value), "--timeout=60s")
	return err
}

// deployments returns all Deployments of the cluster.
func (k kubectl) deployments(ctx context.Context) ([]knative.Deployment, error) {
	output, err := k.run(ctx, "get", "deployments", "--all-namespaces", "--output=json")
	if err != nil {
		return nil, err
	}
	return knative.ParseDeployments(output)
}

// inPod runs a shell command in a pod.
func (k kubectl) inPod(ctx context.Context, pod, command string) (string, error) {
	return k.run(ctx, "exec", pod, "--", "sh", "-c", command)
}
