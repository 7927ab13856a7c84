package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestChangesOfPoliciesAreSeen: what the API server fills in is no difference. What a user adds, removes or narrows is one.
func TestChangesOfPoliciesAreSeen(t *testing.T) {
	manifest := map[string]any{
		"policyName":      "drydock-records",
		"validations":     []any{map[string]any{"expression": "a"}, map[string]any{"expression": "b"}},
		"matchConstraint": map[string]any{"resourceRules": []any{map[string]any{"resources": []any{"pods"}}}},
	}
	for _, row := range []struct {
		change  string
		edit    func(live map[string]any)
		differs bool
	}{
		{"none", func(map[string]any) {}, false},
		{"defaults", func(live map[string]any) {
			live["failurePolicy"], live["matchConstraint"].(map[string]any)["namespaceSelector"] = "Fail", map[string]any{}
		}, false},
		{"failures are ignored", func(live map[string]any) { live["failurePolicy"] = "Ignore" }, true},
		{"a validation is weaker", func(live map[string]any) {
			live["validations"].([]any)[1].(map[string]any)["expression"] = "true"
		}, true},
		{"a validation is missing", func(live map[string]any) { live["validations"] = live["validations"].([]any)[:1] }, true},
		{"fewer objects match", func(live map[string]any) {
			live["matchConstraint"].(map[string]any)["objectSelector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
		}, true},
		{"fewer requests match", func(live map[string]any) {
			live["matchConditions"] = []any{map[string]any{"expression": "false"}}
		}, true},
		{"a field is missing", func(live map[string]any) { delete(live, "validations") }, true},
	} {
		live := (&unstructured.Unstructured{Object: manifest}).DeepCopy().Object
		row.edit(live)
		if got := Differs(manifest, live); got != row.differs {
			t.Errorf("%s: %t, want %t", row.change, got, row.differs)
		}
	}
}
