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

// The namespaces of Knative's own manifests. Every installation has the same.
const (
	EventingNamespace = "knative-eventing"
	ServingNamespace  = "knative-serving"
)

// Deployment is what is asked about one.
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

// ParseDeployments reads a list as kubectl prints it.
func ParseDeployments(list string) ([]Deployment, error) {
	var read struct{ Items []Deployment }
	if err := json.Unmarshal([]byte(list), &read); err != nil {
		return nil, fmt.Errorf("reading the list of Deployments: %w", err)
	}
	return read.Items, nil
}

// Key is NAMESPACE/NAME.
func (d Deployment) Key() string { return d.Metadata.Namespace + "/" + d.Metadata.Name }

// Ready says that all its pods are there, of the newest generation and no other. One that is scaled to zero is ready.
func (d Deployment) Ready() bool {
	wanted := 1
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Metadata.Generation && s.UpdatedReplicas == wanted && s.AvailableReplicas == wanted &&
		s.Replicas == wanted
}

// NotReady are the wanted Deployments that are missing or not ready.
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

// Probe is an object for each webhook that defaults: Eventing's, the channel's and Serving's. It is for a dry run.
//
//go:embed files/probe.yaml
var Probe string

// probed are annotations that the webhooks add to the objects of Probe.
var probed = map[string]string{
	"Broker":          "eventing.knative.dev/broker.class",
	"InMemoryChannel": "messaging.knative.dev/subscribable",
	"Service":         "serving.knative.dev/creator",
}

// Defaulted says which webhook was not asked, by the objects of Probe as the API server answers with them.
func Defaulted(answer string) error {
	seen := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader([]byte(answer))); ; {
		var o Object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the answer of the API server: %w", err)
		}
		seen[o.Kind()] = text(at(o, "metadata", "annotations")[probed[o.Kind()]]) != ""
	}
	for kind := range probed {
		if !seen[kind] {
			return fmt.Errorf("the webhook that defaults a %s is not asked yet", kind)
		}
	}
	return nil
}
