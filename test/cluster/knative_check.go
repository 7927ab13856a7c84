package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"drydock.dev/test/cluster/knative"
)

// checkKnative looks at the Knative of a cluster that is not ours, and changes nothing there. kubectl reads the path
// from the environment itself, where it may be a list.
func (p places) checkKnative(ctx context.Context, path string) error {
	k, err := p.anyKubectl(path)
	if err != nil {
		return err
	}
	list, err := k.run(ctx, "get", "customresourcedefinitions", "--output=json")
	if err != nil {
		return fmt.Errorf("asking the cluster that KUBECONFIG names, %s; unset it to have a cluster on this machine: %w", path, err)
	}
	kinds, err := knative.ParseKinds(list)
	if err != nil {
		return err
	}
	deployments, err := k.deployments(ctx)
	if err != nil {
		return fmt.Errorf("listing the Deployments of the cluster that KUBECONFIG names, %s: %w", path, err)
	}
	var missing []error
	for _, part := range knative.Parts {
		found, err := part.Survey(kinds, deployments)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		say(found)
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cluster that KUBECONFIG names, %s, cannot run the functions:\n%w", path, errors.Join(missing...))
	}
	return k.sayIngressClass(ctx)
}

// sayIngressClass names the network layer that has to be there. Whether it is cannot be seen: each has pods of its own.
func (k kubectl) sayIngressClass(ctx context.Context) error {
	class, err := k.run(
		ctx,
		"get",
		"configmap",
		"config-network",
		"--namespace="+knative.ServingNamespace,
		"--output=jsonpath={.data.ingress-class}",
	)
	if err != nil {
		return fmt.Errorf("reading how Knative Services are reached: %w", err)
	}
	if class == "" {
		class = "istio.ingress.networking.knative.dev, Knative's default"
	}
	say("Knative Services are reached by the network layer of the class " + class)
	return nil
}

// anyKubectl is the machine's own kubectl, else the one that comes with the local cluster. `go run -C` changes the
// folder, so that a relative path would lead elsewhere.
func (p places) anyKubectl(path string) (kubectl, error) {
	for _, each := range filepath.SplitList(path) {
		if !filepath.IsAbs(each) {
			return kubectl{}, fmt.Errorf("KUBECONFIG holds the relative path %s: give it from the root, as in KUBECONFIG=$PWD/%s", each, each)
		}
	}
	if _, err := os.Stat(path); err != nil && !strings.ContainsRune(path, filepath.ListSeparator) {
		return kubectl{}, fmt.Errorf("KUBECONFIG names a file that cannot be read: %w", err)
	}
	if binary, err := exec.LookPath("kubectl"); err == nil {
		return kubectl{binary: binary}, nil
	}
	if _, err := os.Stat(p.kubectl()); err != nil {
		return kubectl{}, fmt.Errorf("kubectl is not in the PATH, and none came with a local cluster: install kubectl: %w", err)
	}
	return kubectl{binary: p.kubectl()}, nil
}

// versions are those of Eventing and Serving, for people.
func versions(modules []knative.Module) string {
	var parts []string
	for _, m := range modules {
		switch m.Path {
		case "knative.dev/eventing":
			parts = append(parts, "Eventing "+m.Version)
		case "knative.dev/serving":
			parts = append(parts, "Serving "+m.Version)
		}
	}
	return strings.Join(parts, ", ")
}
