package owners

import (
	"encoding/json"
	"strings"
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

// customResource is a custom resource of the row's first kind.
func customResource(row Row, content map[string]any) *unstructured.Unstructured {
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

// patched is the object after the actions.
func patched(t *testing.T, object *unstructured.Unstructured, actions []plan.Action, err error) *unstructured.Unstructured {
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

// withLists gives the object two items in each list of the row's settings.
func withLists(object *unstructured.Unstructured, row Row) *unstructured.Unstructured {
	for _, s := range append(row.Pause, row.Stop...) {
		path, _, list := strings.Cut(s.Key, "[*]")
		if items := []any{named("dc1"), named("dc2")}; list {
			if err := unstructured.SetNestedSlice(object.Object, items, strings.Split(path, ".")...); err != nil {
				panic(err)
			}
		}
	}
	return object
}

func named(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}, "size": int64(3)}
}

// TestEveryRowRestoresPreviousSettings: after a hold by any means, the object has its previous content again.
// Invariants: I5.
func TestEveryRowRestoresPreviousSettings(t *testing.T) {
	rows := BuiltIn()
	if len(rows) == 0 {
		t.Error("there are no rows")
	}
	for _, row := range rows {
		for _, by := range []Means{ByPause, ByStop} {
			for name, content := range map[string]map[string]any{
				"an empty object":                    nil,
				"an object with a parent of a field": {"spec": map[string]any{"clusterConfig": map[string]any{}}},
				"an object with other things": {
					"metadata": map[string]any{"annotations": map[string]any{"a": "b"}, "labels": map[string]any{"c": "d"}},
					"spec": map[string]any{"clusterOperation": map[string]any{"stopped": false, "other": "x"},
						"replicas": int64(3), "numberOfInstances": int64(2), "paused": false, "stop": "no"},
				},
			} {
				if row.Supports(by) {
					t.Run(row.Operator+"/"+row.Kinds[0].Name+"/"+string(by)+"/"+name, func(t *testing.T) {
						checkHoldAndRelease(t, row, by, withLists(customResource(row, content), row))
					})
				}
			}
		}
	}
}

// checkHoldAndRelease holds the object, and checks that each kind of release restores its content.
func checkHoldAndRelease(t *testing.T, row Row, by Means, object *unstructured.Unstructured) {
	t.Helper()
	resource := resourceOf(t, row, object)
	if row.Held(by, object) {
		t.Fatal("it is held already")
	}
	actions, err := row.Hold(by, resource, object, first)
	held := patched(t, object, actions, err)
	if !row.Held(by, held) {
		t.Errorf("it is not held: %v", held.Object)
	}
	if again, err := row.Hold(by, resource, held, first); err != nil || len(again) > 0 {
		t.Errorf("held again: %v, %v", again, err)
	}
	actions, err = Release(resource, held, first.Operation, first.Set)
	if diff := cmp.Diff(withoutEmptyMaps(object), withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("its content has changed (-before +after)\n%s", diff)
	}
	actions, err = ReleaseAll(resource, held)
	if diff := cmp.Diff(withoutEmptyMaps(object), withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("released for all, its content has changed (-before +after)\n%s", diff)
	}
}

// withoutEmptyMaps returns the content without empty annotations and labels, which the API server does not keep.
func withoutEmptyMaps(object *unstructured.Unstructured) map[string]any {
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

func findRow(t *testing.T, group, kind string) Row {
	t.Helper()
	row, ok := BuiltIn().Find(group, kind)
	if !ok {
		t.Fatalf("no row names %s of %s", kind, group)
	}
	return row
}

// TestForeignPauseStays: Drydock does not record or end a pause by a user.
// Invariants: I5.
func TestForeignPauseStays(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	object := customResource(row, map[string]any{"spec": map[string]any{"paused": true}})
	resource := resourceOf(t, row, object)
	if actions, err := row.Hold(ByPause, resource, object, first); err != nil || len(actions) > 0 {
		t.Errorf("held: %v, %v", actions, err)
	}
	if actions, err := Release(resource, object, first.Operation, first.Set); err != nil || len(actions) > 0 {
		t.Errorf("released: %v, %v", actions, err)
	}
}

// TestPreviousValueIsRestored: this also holds for a value that was no pause, such as "managed".
// Invariants: I5.
func TestPreviousValueIsRestored(t *testing.T) {
	row := findRow(t, "opentelemetry.io", "OpenTelemetryCollector")
	object := customResource(row, map[string]any{"spec": map[string]any{"managementState": "managed"}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByPause, resource, object, first)
	held := patched(t, object, actions, err)
	actions, err = Release(resource, held, first.Operation, first.Set)
	if diff := cmp.Diff(withoutEmptyMaps(object), withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestForeignChangeStays: a user has ended Drydock's pause or changed its value.
// Invariants: I5.
func TestForeignChangeStays(t *testing.T) {
	row := findRow(t, "redis.redis.opstreelabs.in", "RedisCluster")
	object := customResource(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByPause, resource, object, first)
	held := patched(t, object, actions, err)
	held.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: held.GetAnnotations()[api.OwnerPausedAnnotation],
		row.Pause[0].Key: "false"})
	actions, err = Release(resource, held, first.Operation, first.Set)
	got := patched(t, held, actions, err).GetAnnotations()
	if diff := cmp.Diff(map[string]string{row.Pause[0].Key: "false"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLastOperationResumes: two sets of one owner may be resized at the same time.
// Invariants: I5.
func TestLastOperationResumes(t *testing.T) {
	row := findRow(t, "redis.redis.opstreelabs.in", "RedisCluster")
	object := customResource(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByPause, resource, object, first)
	held := patched(t, object, actions, err)
	actions, err = row.Hold(ByPause, resource, held, second)
	held = patched(t, held, actions, err)
	actions, err = Release(resource, held, first.Operation, first.Set)
	held = patched(t, held, actions, err)
	if !row.Paused(held) {
		t.Fatal("the other operation needs the pause")
	}
	if again, err := Release(resource, held, first.Operation, first.Set); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	actions, err = Release(resource, held, second.Operation, second.Set)
	if got := patched(t, held, actions, err); row.Paused(got) || len(got.GetAnnotations()) > 0 {
		t.Errorf("still %v", got.GetAnnotations())
	}
}

// TestUndonePauseIsRepeated: what the user has written since then is restored at the end.
// Invariants: I5.
func TestUndonePauseIsRepeated(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	object := customResource(row, map[string]any{"spec": map[string]any{"paused": false}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByPause, resource, object, first)
	held := patched(t, object, actions, err)
	unstructured.RemoveNestedField(held.Object, "spec", "paused")
	edited := held.DeepCopy()
	edited.SetAnnotations(nil)
	actions, err = row.Hold(ByPause, resource, held, first)
	held = patched(t, held, actions, err)
	if !row.Paused(held) {
		t.Error("it is not paused again")
	}
	actions, err = Release(resource, held, first.Operation, first.Set)
	if diff := cmp.Diff(withoutEmptyMaps(edited), withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("(-edited +after)\n%s", diff)
	}
}

// TestUnreadablePauseIsAnError: without a readable record, nothing may be written.
func TestUnreadablePauseIsAnError(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	for _, text := range []string{"", "{", `{"version":9}`,
		`{"version":1,"made":[{"in":"annotation","key":"a","value":"b","was":5}]}`,
		`{"version":1,"made":[{"in":"label","key":"a","value":true}]}`,
		`{"version":1,"made":[{"in":"field","key":"spec.a"}]}`,
		`{"version":1,"made":[{"in":"field","key":"metadata.finalizers","value":"x"}]}`,
		`{"version":1,"made":[{"in":"field","key":"spec.a[*].b","value":true}]}`,
		`{"version":1,"made":[{"in":"field","key":"spec.a[set].b","value":true}]}`,
		`{"version":1,"made":[{"in":"field","key":"spec","value":true}]}`,
		`{"version":1,"made":[{"in":"","key":"spec.a","value":true}]}`,
		`{"version":1,"made":[{"in":"status","key":"spec.a","value":true}]}`,
	} {
		object := customResource(row, nil)
		object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: text})
		if _, err := row.Hold(ByPause, "x", object, first); err == nil {
			t.Errorf("%q: held", text)
		}
		if _, err := Release("x", object, first.Operation, first.Set); err == nil {
			t.Errorf("%q: released", text)
		}
		if _, err := ReleaseAll("x", object); err == nil {
			t.Errorf("%q: released for all", text)
		}
	}
}
