package build

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/plan"
)

// Patched returns the custom resource after the patches.
func Patched(object *unstructured.Unstructured, patches ...plan.Action) (*unstructured.Unstructured, error) {
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	for _, a := range patches {
		ops, err := json.Marshal(a.Ops)
		if err != nil {
			return nil, err
		}
		patch, err := jsonpatch.DecodePatch(ops)
		if err != nil {
			return nil, err
		}
		if text, err = patch.Apply(text); err != nil {
			return nil, err
		}
	}
	next := &unstructured.Unstructured{}
	return next, next.UnmarshalJSON(text)
}
