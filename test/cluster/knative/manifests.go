package knative

import (
	_ "embed"
	"fmt"
)

//go:embed files/ingress.yaml
var ingressManifest string

// Manifests holds the objects to apply: first the definitions of kinds, then all others once the API server serves the kinds.
type Manifests struct {
	Definitions, Rest []byte
	Deployments       []string // required Deployments, as NAMESPACE/NAME
}

// Fingerprint returns a digest of the manifests.
func (m Manifests) Fingerprint() string { return Fingerprint(m.Definitions, m.Rest) }

// Make returns the manifests of an installation with these images.
func Make(modules []Module, images map[string]string) (Manifests, error) {
	objects, err := Read(modules, images)
	if err != nil {
		return Manifests{}, err
	}
	ingress, err := useImages(ingressManifest, images)
	if err != nil {
		return Manifests{}, err
	}
	own, err := Parse(ingress)
	if err != nil {
		return Manifests{}, fmt.Errorf("reading the ingress' manifest: %w", err)
	}
	return split(Adjust(append(objects, own...)))
}

func split(objects []Object) (Manifests, error) {
	var m Manifests
	var definitions, rest []Object
	for _, o := range objects {
		switch o.Kind() {
		case "CustomResourceDefinition":
			definitions = append(definitions, o)
			continue
		case "Deployment":
			m.Deployments = append(m.Deployments, o.Namespace()+"/"+o.Name())
		}
		rest = append(rest, o)
	}
	err := Sort(rest)
	if err != nil {
		return m, err
	}
	if m.Definitions, err = Render(definitions); err != nil {
		return m, err
	}
	m.Rest, err = Render(rest)
	return m, err
}
