package install

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Policies returns the ValidatingAdmissionPolicies of this version and their bindings.
var Policies = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	objects, err := render(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../config/policy"}})
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "ValidatingAdmissionPolicy" && o.GetKind() != "ValidatingAdmissionPolicyBinding"
	}), err
})

// filledIn are the values that the API server gives to the fields of policies and bindings that a manifest leaves out. Source: the
// defaults of admissionregistration.k8s.io/v1.
var filledIn = []any{"Fail", "Equivalent", "*", map[string]any{}}

// Differs reports whether the spec in the cluster has another meaning than that of the manifest.
func Differs(manifest, live any) bool {
	switch want := manifest.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return true
		}
		for key, value := range want {
			if Differs(value, have[key]) {
				return true
			}
		}
		for key, value := range have {
			if _, named := want[key]; !named && !slices.ContainsFunc(filledIn, func(v any) bool { return reflect.DeepEqual(v, value) }) {
				return true
			}
		}
		return false
	case []any:
		have, ok := live.([]any)
		return !ok || !slices.EqualFunc(want, have, func(a, b any) bool { return !Differs(a, b) })
	}
	return !reflect.DeepEqual(manifest, live)
}
