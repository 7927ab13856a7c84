package owners

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

var (
	first  = api.Holder{Operation: "one", Set: "web-0"}
	second = api.Holder{Operation: "two", Set: "web-1"}
)

// custom is a custom resource of the row's first kind.
func custom(row Row, content map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if content != nil {
		object = (&unstructured.Unstructured{Object: content}).DeepCopy()
	}
	object.SetAPIVersion(row.Group + "/v1")
	object.SetKind(row.Kinds[0].Name)
	object.SetNamespace("shop")
	object.SetName("main")
	object.SetResourceVersion("7")
	return object
}

// after is the object as the API server has it after the actions.
func after(t *testing.T, object *unstructured.Unstructured, actions []plan.Action, err error) *unstructured.Unstructured {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	before, _ := object.MarshalJSON()
	for _, a := range actions {
		ops, _ := json.Marshal(a.Ops)
		patch, err := jsonpatch.DecodePatch(ops)
		if err != nil {
			t.Fatal(err)
		}
		if before, err = patch.Apply(before); err != nil {
			t.Fatalf("%s: %v", ops, err)
		}
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(before); err != nil {
		t.Fatal(err)
	}
	return next
}

func resourceOf(t *testing.T, row Row, object *unstructured.Unstructured) plan.Resource {
	t.Helper()
	resource, err := row.Resource(metav1.OwnerReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName()})
	if err != nil {
		t.Fatal(err)
	}
	return resource
}

// TestI5EveryRowPausesAndPutsBack: nothing is left of a pause, whatever the object had.
func TestI5EveryRowPausesAndPutsBack(t *testing.T) {
	for _, row := range BuiltIn() {
		if row.Up {
			continue
		}
		for name, content := range map[string]map[string]any{
			"an empty object":                    nil,
			"an object with a parent of a field": {"spec": map[string]any{"clusterConfig": map[string]any{}}},
			"an object with other things": {
				"metadata": map[string]any{"annotations": map[string]any{"a": "b"}, "labels": map[string]any{"c": "d"}},
				"spec":     map[string]any{"clusterOperation": map[string]any{"stopped": false}, "replicas": int64(3)},
			},
		} {
			object := custom(row, content)
			resource := resourceOf(t, row, object)
			if row.Paused(object) {
				t.Fatalf("%s %s: %s is paused already", row.Operator, row.Kinds[0].Name, name)
			}
			actions, err := row.Hold(resource, object, first)
			held := after(t, object, actions, err)
			if !row.Paused(held) {
				t.Errorf("%s %s: %s is not paused: %v", row.Operator, row.Kinds[0].Name, name, held.Object)
			}
			if again, err := row.Hold(resource, held, first); err != nil || len(again) > 0 {
				t.Errorf("%s %s: held again: %v, %v", row.Operator, row.Kinds[0].Name, again, err)
			}
			actions, err = Release(resource, held, first.Operation)
			if diff := cmp.Diff(stripped(object), stripped(after(t, held, actions, err))); diff != "" {
				t.Errorf("%s %s: %s is not what it was (-before +after)\n%s", row.Operator, row.Kinds[0].Name, name, diff)
			}
		}
	}
}

// stripped is the content without an empty map of annotations or labels, which the API server does not keep.
func stripped(object *unstructured.Unstructured) map[string]any {
	o := object.DeepCopy()
	o.SetAnnotations(o.GetAnnotations())
	o.SetLabels(o.GetLabels())
	for _, name := range []string{"annotations", "labels"} {
		if m, _, _ := unstructured.NestedMap(o.Object, "metadata", name); len(m) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", name)
		}
	}
	return o.Object
}

func find(t *testing.T, group, kind string) Row {
	t.Helper()
	row, ok := BuiltIn().Find(group, kind)
	if !ok {
		t.Fatalf("no row about %s of %s", kind, group)
	}
	return row
}

// TestI5APauseOfSomebodyElseStays: neither is it marked as ours, nor ended.
func TestI5APauseOfSomebodyElseStays(t *testing.T) {
	row := find(t, "monitoring.coreos.com", "Prometheus")
	object := custom(row, map[string]any{"spec": map[string]any{"paused": true}})
	resource := resourceOf(t, row, object)
	if actions, err := row.Hold(resource, object, first); err != nil || len(actions) > 0 {
		t.Errorf("held: %v, %v", actions, err)
	}
	if actions, err := Release(resource, object, first.Operation); err != nil || len(actions) > 0 {
		t.Errorf("released: %v, %v", actions, err)
	}
}

// TestI5WhatWasThereComesBack, also where it was no pause: "false", or another state.
func TestI5WhatWasThereComesBack(t *testing.T) {
	row := find(t, "opentelemetry.io", "OpenTelemetryCollector")
	object := custom(row, map[string]any{"spec": map[string]any{"managementState": "managed"}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(resource, object, first)
	held := after(t, object, actions, err)
	actions, err = Release(resource, held, first.Operation)
	if diff := cmp.Diff(stripped(object), stripped(after(t, held, actions, err))); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestI5WhatSomebodyElseChangedSinceStays: a person has ended our pause, or made it another.
func TestI5WhatSomebodyElseChangedSinceStays(t *testing.T) {
	row := find(t, "redis.redis.opstreelabs.in", "RedisCluster")
	object := custom(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(resource, object, first)
	held := after(t, object, actions, err)
	held.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: held.GetAnnotations()[api.OwnerPausedAnnotation], row.Pause[0].Key: "false"})
	actions, err = Release(resource, held, first.Operation)
	got := after(t, held, actions, err).GetAnnotations()
	if diff := cmp.Diff(map[string]string{row.Pause[0].Key: "false"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestI5TheLastOperationResumes: two sets of one owner may be resized at once.
func TestI5TheLastOperationResumes(t *testing.T) {
	row := find(t, "redis.redis.opstreelabs.in", "RedisCluster")
	object := custom(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(resource, object, first)
	held := after(t, object, actions, err)
	actions, err = row.Hold(resource, held, second)
	held = after(t, held, actions, err)
	actions, err = Release(resource, held, first.Operation)
	held = after(t, held, actions, err)
	if !row.Paused(held) {
		t.Fatal("the other operation needs the pause")
	}
	if again, err := Release(resource, held, first.Operation); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	actions, err = Release(resource, held, second.Operation)
	if got := after(t, held, actions, err); row.Paused(got) || len(got.GetAnnotations()) > 0 {
		t.Errorf("still %v", got.GetAnnotations())
	}
}

// TestUndonePauseIsMadeAgain: the first value found stays what comes back.
func TestUndonePauseIsMadeAgain(t *testing.T) {
	row := find(t, "monitoring.coreos.com", "Prometheus")
	object := custom(row, map[string]any{"spec": map[string]any{"paused": false}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(resource, object, first)
	held := after(t, object, actions, err)
	unstructured.RemoveNestedField(held.Object, "spec", "paused")
	actions, err = row.Hold(resource, held, first)
	held = after(t, held, actions, err)
	if !row.Paused(held) {
		t.Error("it is not paused again")
	}
	actions, err = Release(resource, held, first.Operation)
	if diff := cmp.Diff(stripped(object), stripped(after(t, held, actions, err))); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestUnreadablePauseIsAnError: who cannot read what was done must not act.
func TestUnreadablePauseIsAnError(t *testing.T) {
	row := find(t, "monitoring.coreos.com", "Prometheus")
	for _, text := range []string{"", "{", `{"version":9}`} {
		object := custom(row, nil)
		object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: text})
		if _, err := row.Hold("x", object, first); err == nil {
			t.Errorf("%q: held", text)
		}
		if _, err := Release("x", object, first.Operation); err == nil {
			t.Errorf("%q: released", text)
		}
	}
}
