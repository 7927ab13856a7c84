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

// Object is any object of Kubernetes.
type Object map[string]any

// Kind and the two after it say which object it is.
func (o Object) Kind() string { return text(o["kind"]) }

// Name is the object's name.
func (o Object) Name() string { return text(at(o, "metadata")["name"]) }

// Namespace is empty for what is in none.
func (o Object) Namespace() string { return text(at(o, "metadata")["namespace"]) }

func text(value any) string { s, _ := value.(string); return s }

// at walks down to a map, making those that are missing.
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

// Parse reads a file of several objects.
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

// order is in which kinds are created: each after what it refers to. A webhook is asked as soon as its configuration is
// there, so those come last.
var order = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Secret",
	"Service", "Deployment", "Image", "Certificate", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

// Sort puts objects in the order of creation. It refuses a kind that it does not know the place of.
func Sort(objects []Object) error {
	for _, o := range objects {
		if !slices.Contains(order, o.Kind()) {
			return fmt.Errorf("no place is known for %s %s among the kinds that are created", o.Kind(), o.Name())
		}
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		return slices.Index(order, a.Kind()) - slices.Index(order, b.Kind())
	})
	return nil
}

// Render writes objects as kubectl reads them.
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

// Fingerprint tells manifests from others.
func Fingerprint(manifests ...[]byte) string {
	hash := sha256.New()
	for _, each := range manifests {
		hash.Write(each)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
