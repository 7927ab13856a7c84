package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/template"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
	"drydock.dev/test/cluster/knative"
)

// api reads from an API server. It does not use client-go, so that this command compiles and starts quickly.
type api struct {
	server, token string
	client        *http.Client
}

func newAPI(c config.Cluster) (api, error) {
	authority, err := os.ReadFile(c.Path("pki", "ca.crt"))
	if err != nil {
		return api{}, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	tokens, err := c.Tokens()
	if err != nil {
		return api{}, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	return api{c.APIServer(), tokens[config.Administrator.Name], &http.Client{Transport: transport}}, nil
}

// get reads an object into out. If out is nil, it only checks the status code.
func (a api) get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s", path, response.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// ready checks the API server's readiness endpoint.
func (a api) ready(ctx context.Context) error { return a.get(ctx, "/readyz", nil) }

// healthy checks the health endpoint of a component.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s", url, response.Status)
	}
	return nil
}

// has returns a check that the object exists.
func (a api) has(path string) func(context.Context) error {
	return func(ctx context.Context) error { return a.get(ctx, path, nil) }
}

// nodeReady checks whether the node can run pods.
func (a api) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := a.get(ctx, "/api/v1/nodes/"+config.NodeName, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return fmt.Errorf("the node is not ready: %s", condition.Message)
	}
	return errors.New("the node has not reported yet")
}

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

// waitFor waits until check returns nil. It fails when the component has ended or the time is over. The error then includes the end of the
// component's log.
func waitFor(ctx context.Context, c config.Cluster, component config.Component, what string, within time.Duration,
	check func(context.Context) error,
) error {
	return step("waiting for "+what, func() error {
		deadline, missed := time.Now().Add(within), 0
		for {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			last := check(attempt)
			cancel()
			if last == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			processes, err := host.Processes(c.Dir())
			if err != nil {
				return err
			}
			if host.Running(processes, component.Name, component.Binary) {
				missed = 0
			} else if missed++; missed == maxMissed {
				return withLog(c, component.Name, fmt.Errorf("%s ended while waiting for %s", component.Name, what))
			}
			if time.Now().After(deadline) {
				return withLog(c, component.Name, fmt.Errorf("%s is not ready after %s: %w", what, within, last))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// maxMissed is the number of consecutive checks without the process that prove its end. During exec a process briefly has no environment,
// so that one check can miss it.
const maxMissed = 3

// withLog adds the end of a component's log to an error.
func withLog(c config.Cluster, component string, cause error) error {
	path := c.Log(component)
	return fmt.Errorf("%w\nthe log of %s is %s. Its last lines:\n%s", cause, component, path, tail(path, 15))
}

// tail returns the last lines of a file, at most 16 KiB.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (cannot read the log: " + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > 16<<10 {
		_, _ = file.Seek(-16<<10, io.SeekEnd) // on an error, read from the start
	}
	text, err := io.ReadAll(file)
	if err != nil && !errors.Is(err, io.EOF) {
		return "  (cannot read the log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
