package knative

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Part is half of Knative, as any cluster has it.
type Part struct {
	Name, Namespace string
	Kinds           []string // names of CustomResourceDefinitions that Drydock's manifests use
	Install         string   // where it is told how to install it
}

// Parts are both halves.
var Parts = []Part{
	{"Knative Eventing", EventingNamespace, []string{
		"brokers.eventing.knative.dev", "triggers.eventing.knative.dev",
		"apiserversources.sources.knative.dev", "pingsources.sources.knative.dev",
	}, "https://knative.dev/docs/install/yaml-install/eventing/install-eventing-with-yaml/"},
	{"Knative Serving", ServingNamespace, []string{
		"services.serving.knative.dev",
	}, "https://knative.dev/docs/install/yaml-install/serving/install-serving-with-yaml/"},
}

// servedVersion is the version of all those kinds that Drydock's manifests ask for.
const servedVersion = "v1"

// Kind is what is asked about a CustomResourceDefinition.
type Kind struct {
	Metadata struct{ Name string }
	Spec     struct {
		Versions []struct {
			Name   string
			Served bool
		}
	}
}

// ParseKinds reads a list as kubectl prints it.
func ParseKinds(list string) ([]Kind, error) {
	var read struct{ Items []Kind }
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return nil, fmt.Errorf("reading the list of CustomResourceDefinitions: %w", err)
	}
	return read.Items, nil
}

// Survey says in one line what a cluster has of a part, or as an error what is missing and what to do.
func (p Part) Survey(kinds []Kind, all []Deployment) (string, error) {
	if missing := p.missing(kinds); len(missing) > 0 {
		return "", fmt.Errorf(
			"%s is missing, or too old: the cluster does not serve %s of %s; install it (%s), or unset KUBECONFIG to have a cluster on this machine",
			p.Name,
			servedVersion,
			strings.Join(missing, ", "),
			p.Install,
		)
	}
	var names []string
	deployments := slices.DeleteFunc(slices.Clone(all), func(d Deployment) bool { return d.Metadata.Namespace != p.Namespace })
	for _, d := range deployments {
		names = append(names, d.Key())
	}
	if len(deployments) == 0 {
		return "", fmt.Errorf(
			"%s has its kinds, but nothing that runs in the namespace %s; install all of it (%s)",
			p.Name,
			p.Namespace,
			p.Install,
		)
	}
	if waiting := NotReady(names, deployments); len(waiting) > 0 {
		return "", fmt.Errorf("%s is not ready: %s; look with: kubectl get pods --namespace=%s", p.Name, strings.Join(waiting, ", "), p.Namespace)
	}
	return fmt.Sprintf("%s %s: %d Deployments are ready in %s", p.Name, version(deployments), len(deployments), p.Namespace), nil
}

// missing are the kinds that are not served in the version that is asked for.
func (p Part) missing(kinds []Kind) []string {
	return slices.DeleteFunc(slices.Clone(p.Kinds), func(name string) bool {
		return slices.ContainsFunc(kinds, func(k Kind) bool { return k.Metadata.Name == name && k.serves(servedVersion) })
	})
}

func (k Kind) serves(version string) bool {
	for _, v := range k.Spec.Versions {
		if v.Name == version && v.Served {
			return true
		}
	}
	return false
}

// versionLabel is on every Deployment of a release.
const versionLabel = "app.kubernetes.io/version"

// version is that of most of the Deployments: those of other projects may run in the same namespace.
func version(deployments []Deployment) string {
	count, best := map[string]int{}, "of an unknown version"
	for _, d := range deployments {
		label := d.Metadata.Labels[versionLabel]
		if label == "" {
			continue
		}
		if count[label]++; count[label] > count[best] {
			best = label
		}
	}
	return best
}
