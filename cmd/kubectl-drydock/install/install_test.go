package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/test/golden"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestRenderedObjects lists the objects of each installation, in their order.
func TestRenderedObjects(t *testing.T) {
	file := golden.Open(t)
	for _, o := range []Options{
		{Mode: Standalone, Image: "example.com/drydock" + digest, StandaloneImage: "example.com/drydock-standalone" + digest},
		{Mode: Knative, Image: "example.com/drydock" + digest, Templates: "v1beta1"},
	} {
		objects, err := Render(o)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range objects {
			names = append(names, fmt.Sprintf("%s %s", object.GetKind(), object.GetName()))
		}
		file.Entry(t, string(o.Mode), strings.Join(names, "\n"))
	}
}

// TestImagesAreNamedEverywhere: no placeholder of the files is left.
func TestImagesAreNamedEverywhere(t *testing.T) {
	for _, o := range []Options{
		{Mode: Standalone, Image: "example.com/drydock" + digest, StandaloneImage: "example.com:5000/drydock-standalone:v1", AllowTags: true},
		{Mode: Knative, Image: "example.com/drydock" + digest},
	} {
		objects, err := Render(o)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprint(objects)
		for _, placeholder := range []string{"registry.invalid", "resourceNames:[unset]", "DRYDOCK_IMAGE value:]", "image:drydock]",
			"DRYDOCK_IMAGE:]"} {
			if strings.Contains(all, placeholder) {
				t.Errorf("%s: %s is left", o.Mode, placeholder)
			}
		}
		want := "example.com:5000/drydock-standalone:v1"
		if o.Mode == Knative {
			want = o.Image
		}
		if !slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool {
			return strings.Contains(fmt.Sprint(object), "image:"+want)
		}) {
			t.Errorf("%s: nothing runs image %s", o.Mode, want)
		}
	}
}

// TestMoversImageIsAllowed: without the Role no mover can be created.
func TestMoversImageIsAllowed(t *testing.T) {
	for _, mode := range []Mode{Standalone, Knative} {
		objects, err := Render(Options{Mode: mode, Image: "example.com/drydock" + digest,
			StandaloneImage: "example.com/drydock-standalone" + digest})
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for _, object := range objects {
			if object.GetKind() == "Role" && strings.Contains(fmt.Sprint(object), "resourceNames:[example.com/drydock"+digest+"]") {
				allowed++
			}
		}
		if allowed != 1 {
			t.Errorf("%s: %d Roles allow the movers' image, want 1", mode, allowed)
		}
	}
}

func TestImagesNeedDigests(t *testing.T) {
	for _, o := range []Options{
		{Mode: Standalone, Image: "example.com/drydock" + digest},
		{Mode: Standalone, StandaloneImage: "example.com/drydock-standalone" + digest},
		{Mode: Standalone, Image: "example.com/drydock" + digest, StandaloneImage: "example.com/drydock-standalone:v1"},
		{Mode: Knative, Image: "drydock:dev", AllowTags: true},
	} {
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%+v: %v does not name the flag", o, err)
		}
	}
}

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
