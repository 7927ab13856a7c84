package knative

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The namespaces in Knative's own manifests. Every installation uses them.
const (
	EventingNamespace = "knative-eventing"
	ServingNamespace  = "knative-serving"
)

// Deployment holds the fields of a Deployment that the checks use.
type Deployment struct {
	Metadata struct {
		Name, Namespace string
		Generation      int64
		Labels          map[string]string
	}
	Spec   struct{ Replicas *int }
	Status struct {
		ObservedGeneration                           int64
		Replicas, UpdatedReplicas, AvailableReplicas int
	}
}

// ParseDeployments parses kubectl's list.
func ParseDeployments(list string) ([]Deployment, error) {
	var read struct{ Items []Deployment }
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return nil, fmt.Errorf("reading the list of Deployments: %w", err)
	}
	return read.Items, nil
}

// Key returns NAMESPACE/NAME.
func (d Deployment) Key() string { return d.Metadata.Namespace + "/" + d.Metadata.Name }

// Ready reports whether all pods are available and of the newest generation. A Deployment with zero replicas is ready.
func (d Deployment) Ready() bool {
	wanted := 1
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Metadata.Generation && s.UpdatedReplicas == wanted && s.AvailableReplicas == wanted &&
		s.Replicas == wanted
}

// NotReady returns the wanted Deployments that are missing or not ready.
func NotReady(wanted []string, found []Deployment) []string {
	var waiting []string
	for _, key := range wanted {
		at := slices.IndexFunc(found, func(d Deployment) bool { return d.Key() == key })
		if at < 0 || !found[at].Ready() {
			waiting = append(waiting, key)
		}
	}
	return waiting
}

// Probe has an object for each defaulting webhook: Eventing's, the channel's and Serving's. It is for a dry run.
//
//go:embed files/probe.yaml
var Probe string

// probed lists the annotations that the webhooks add to the objects of Probe, by kind.
var probed = map[string]string{
	"Broker":          "eventing.knative.dev/broker.class",
	"InMemoryChannel": "messaging.knative.dev/subscribable",
	"Service":         "serving.knative.dev/creator",
}

// Defaulted returns an error if the API server's response to Probe shows that a webhook was not called.
func Defaulted(answer string) error {
	seen := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader([]byte(answer))); ; {
		var o Object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the API server's response: %w", err)
		}
		seen[o.Kind()] = text(at(o, "metadata", "annotations")[probed[o.Kind()]]) != ""
	}
	for kind := range probed {
		if !seen[kind] {
			return fmt.Errorf("the webhook that defaults a %s was not called yet", kind)
		}
	}
	return nil
}
