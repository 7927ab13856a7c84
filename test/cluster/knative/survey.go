package knative

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Part is one half of Knative, in any cluster.
type Part struct {
	Name, Namespace string
	Kinds           []string // CustomResourceDefinitions that Drydock's manifests use
	Install         string   // URL of the installation guide
}

// Parts lists both halves.
var Parts = []Part{
	{"Knative Eventing", EventingNamespace, []string{
		"brokers.eventing.knative.dev", "triggers.eventing.knative.dev",
		"apiserversources.sources.knative.dev", "pingsources.sources.knative.dev",
	}, "https://knative.dev/docs/install/yaml-install/eventing/install-eventing-with-yaml/"},
	{"Knative Serving", ServingNamespace, []string{
		"services.serving.knative.dev",
	}, "https://knative.dev/docs/install/yaml-install/serving/install-serving-with-yaml/"},
}

// servedVersion is the version of these kinds in Drydock's manifests.
const servedVersion = "v1"

// Kind holds the fields of a CustomResourceDefinition that the checks use.
type Kind struct {
	Metadata struct{ Name string }
	Spec     struct {
		Versions []struct {
			Name   string
			Served bool
		}
	}
}

// ParseKinds parses kubectl's list.
func ParseKinds(list string) ([]Kind, error) {
	var read struct{ Items []Kind }
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return nil, fmt.Errorf("reading the list of CustomResourceDefinitions: %w", err)
	}
	return read.Items, nil
}

// Survey describes the part in one line, or returns an error with the missing objects and the next step.
func (p Part) Survey(kinds []Kind, all []Deployment) (string, error) {
	if missing := p.missing(kinds); len(missing) > 0 {
		return "", fmt.Errorf("%s is missing or too old: the cluster does not serve %s of %s. "+
			"Install it (%s), or unset KUBECONFIG to use a cluster on this machine",
			p.Name, servedVersion, strings.Join(missing, ", "), p.Install)
	}
	var names []string
	deployments := slices.DeleteFunc(slices.Clone(all), func(d Deployment) bool { return d.Metadata.Namespace != p.Namespace })
	for _, d := range deployments {
		names = append(names, d.Key())
	}
	if len(deployments) == 0 {
		return "", fmt.Errorf("%s has its kinds, but no Deployments in the namespace %s. Install it completely (%s)", p.Name, p.Namespace,
			p.Install)
	}
	if waiting := NotReady(names, deployments); len(waiting) > 0 {
		return "", fmt.Errorf("%s is not ready: %s. Run: kubectl get pods --namespace=%s", p.Name, strings.Join(waiting, ", "), p.Namespace)
	}
	return fmt.Sprintf("%s %s: %d Deployments are ready in %s", p.Name, version(deployments), len(deployments), p.Namespace), nil
}

// missing returns the kinds that are not served in the required version.
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

// versionLabel is a label of every Deployment in a release.
const versionLabel = "app.kubernetes.io/version"

// version returns the version of most Deployments, because Deployments of other projects may run in the same namespace.
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
