package knative

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// Object is any Kubernetes object.
type Object map[string]any

// Kind returns the object's kind.
func (o Object) Kind() string { return text(o["kind"]) }

// Name returns the object's name.
func (o Object) Name() string { return text(at(o, "metadata")["name"]) }

// Namespace returns the object's namespace, or "" without one.
func (o Object) Namespace() string { return text(at(o, "metadata")["namespace"]) }

func text(value any) string { s, _ := value.(string); return s }

// at returns the nested map at a path, and creates missing maps.
func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	return object
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*$`)

// Parse parses a file with several objects.
func Parse(manifest string) ([]Object, error) {
	var objects []Object
	for _, document := range separator.Split(manifest, -1) {
		var o Object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, fmt.Errorf("parsing an object: %w", err)
		}
		if len(o) > 0 {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// order lists the kinds in the order of creation: each after the kinds that it refers to. Webhook configurations come last, because the API
// server calls a webhook as soon as its configuration exists.
var order = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Secret",
	"Service", "Deployment", "Image", "Certificate", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

// Sort sorts objects in the order of creation. It returns an error for an unknown kind.
func Sort(objects []Object) error {
	for _, o := range objects {
		if !slices.Contains(order, o.Kind()) {
			return fmt.Errorf("the order of creation has no place for %s %s. Add its kind to it", o.Kind(), o.Name())
		}
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		return slices.Index(order, a.Kind()) - slices.Index(order, b.Kind())
	})
	return nil
}

// Render returns the objects in kubectl's input format.
func Render(objects []Object) ([]byte, error) {
	var all bytes.Buffer
	for _, o := range objects {
		document, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", o.Kind(), o.Name(), err)
		}
		all.WriteString("---\n")
		all.Write(append(document, '\n'))
	}
	return all.Bytes(), nil
}

// Fingerprint returns a digest of manifests.
func Fingerprint(manifests ...[]byte) string {
	hash := sha256.New()
	for _, each := range manifests {
		hash.Write(each)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
