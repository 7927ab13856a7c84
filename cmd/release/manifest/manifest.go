// Package manifest prints the manifests of an installation, for kubectl apply.
package manifest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// Files returns the manifests by file name: an installation for each mode, and the additional policies that turn edited manifests into
// requests, for each API version.
func Files(image, standaloneImage string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var standalone []*unstructured.Unstructured
	for _, mode := range []install.Mode{install.Knative, install.Standalone} {
		objects, err := install.Render(install.Options{Mode: mode, Image: image, StandaloneImage: standaloneImage})
		if err != nil {
			return nil, err
		}
		standalone = objects
		if files["drydock-"+string(mode)+".yaml"], err = documents(objects); err != nil {
			return nil, err
		}
	}
	for _, version := range []string{"v1", "v1beta1"} {
		all, err := install.Render(install.Options{Mode: install.Standalone, Image: image, StandaloneImage: standaloneImage, Templates: version})
		if err != nil {
			return nil, err
		}
		if files["drydock-edited-manifests-"+version+".yaml"], err = documents(without(all, standalone)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// without returns the objects that are not among the others.
func without(objects, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return slices.ContainsFunc(others, func(other *unstructured.Unstructured) bool { return reflect.DeepEqual(object.Object, other.Object) })
	})
}

// documents returns the objects as documents, in their order.
func documents(objects []*unstructured.Unstructured) ([]byte, error) {
	var text bytes.Buffer
	for _, object := range objects {
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("printing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		fmt.Fprintf(&text, "---\n%s", document)
	}
	return text.Bytes(), nil
}
