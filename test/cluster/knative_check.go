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

// checkKnative returns an error if the Knative of the user's cluster cannot run the functions. It changes nothing. The path is the value of
// KUBECONFIG, which may be a list of paths. kubectl reads the variable itself.
func (p places) checkKnative(ctx context.Context, path string) error {
	k, err := p.anyKubectl(path)
	if err != nil {
		return err
	}
	list, err := k.run(ctx, "get", "customresourcedefinitions", "--output=json")
	if err != nil {
		return fmt.Errorf("reading from the cluster of KUBECONFIG %s. Unset KUBECONFIG to use a cluster on this machine: %w", path, err)
	}
	kinds, err := knative.ParseKinds(list)
	if err != nil {
		return err
	}
	deployments, err := k.deployments(ctx)
	if err != nil {
		return fmt.Errorf("listing the Deployments of the cluster of KUBECONFIG %s: %w", path, err)
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
		return fmt.Errorf("the cluster of KUBECONFIG %s cannot run the functions:\n%w", path, errors.Join(missing...))
	}
	return k.sayIngressClass(ctx)
}

// sayIngressClass prints which network layer Knative Services need. It does not check that the layer runs, because each layer has
// different pods.
func (k kubectl) sayIngressClass(ctx context.Context) error {
	class, err := k.run(ctx, "get", "configmap", "config-network", "--namespace="+knative.ServingNamespace,
		"--output=jsonpath={.data.ingress-class}")
	if err != nil {
		return fmt.Errorf("reading the ingress class of Knative Services: %w", err)
	}
	if class == "" {
		class = "istio.ingress.networking.knative.dev, Knative's default"
	}
	say("Knative Services need a network layer of the class " + class)
	return nil
}

// anyKubectl returns the kubectl in the PATH or, if there is none, the one of the local cluster. The path is the value of KUBECONFIG. It
// must have no relative path, because `go run -C` changes the working folder.
func (p places) anyKubectl(path string) (kubectl, error) {
	for _, each := range filepath.SplitList(path) {
		if !filepath.IsAbs(each) {
			return kubectl{}, fmt.Errorf("the path %s in KUBECONFIG is relative. Use an absolute path, such as KUBECONFIG=$PWD/%s", each, each)
		}
	}
	if _, err := os.Stat(path); err != nil && !strings.ContainsRune(path, filepath.ListSeparator) {
		return kubectl{}, fmt.Errorf("the file of KUBECONFIG cannot be read: %w", err)
	}
	if binary, err := exec.LookPath("kubectl"); err == nil {
		return kubectl{binary: binary}, nil
	}
	if _, err := os.Stat(p.kubectl()); err != nil {
		return kubectl{}, fmt.Errorf("kubectl is missing in the PATH, and no local cluster provides it. Install kubectl: %w", err)
	}
	return kubectl{binary: p.kubectl()}, nil
}

// versions returns the versions of the modules Eventing and Serving as text.
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
