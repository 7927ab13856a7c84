package owners

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
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
	next, err := build.Patched(object, actions...)
	if err != nil {
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

// TestReplicasAreRestoredExactly: the previous value is recorded as JSON and restored as the same number.
// Invariants: I4.
func TestReplicasAreRestoredExactly(t *testing.T) {
	row := findRow(t, "rabbitmq.com", "RabbitmqCluster")
	for name, spec := range map[string]map[string]any{
		"a number":                            {"replicas": int64(5)},
		"a number that no float64 has":        {"replicas": int64(9007199254740993)},
		"nothing, and the operator's default": {"image": "rabbitmq"},
		"no spec at all":                      nil,
		"a number that is not whole":          {"replicas": 1.5},
		"something that is not a number": {"replicas": map[string]any{"min": int64(9007199254740993), "of": []any{int64(1), 2.5, "x",
			true}}},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string]any{}
			if spec != nil {
				content["spec"] = spec
			}
			object := customResource(row, content)
			checkHoldAndRelease(t, row, ByStop, object)
			actions, err := row.Hold(ByStop, resourceOf(t, row, object), object, first)
			if got := valueAt(patched(t, object, actions, err).Object, []string{"spec", "replicas"}); got != zeroReplicas {
				t.Errorf("held at %v (%T), want 0", got, got)
			}
		})
	}
}

// TestForeignReplicasStay: a user has scaled the resource during the hold.
// Invariants: I4.
func TestForeignReplicasStay(t *testing.T) {
	row := findRow(t, "rabbitmq.com", "RabbitmqCluster")
	object := customResource(row, map[string]any{"spec": map[string]any{"replicas": int64(5)}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByStop, resource, object, first)
	held := patched(t, object, actions, err)
	_ = unstructured.SetNestedField(held.Object, int64(2), "spec", "replicas")
	actions, err = Release(resource, held, first.Operation, first.Set)
	got := patched(t, held, actions, err)
	if replicas := valueAt(got.Object, []string{"spec", "replicas"}); replicas != int64(2) || len(got.GetAnnotations()) > 0 {
		t.Errorf("%v replicas, annotations %v", replicas, got.GetAnnotations())
	}
}

// TestForeignStopStays: a user had already scaled the resource to 0 replicas.
// Invariants: I5.
func TestForeignStopStays(t *testing.T) {
	row := findRow(t, "rabbitmq.com", "RabbitmqCluster")
	object := customResource(row, map[string]any{"spec": map[string]any{"replicas": int64(0)}})
	if actions, err := row.Hold(ByStop, resourceOf(t, row, object), object, first); err != nil || len(actions) > 0 || !row.Held(ByStop,
		object) {
		t.Errorf("%v, %v", actions, err)
	}
}

// TestFirstWakingSetEndsStop: the stop ends for all sets of the owner, and the others find nothing to end.
// Invariants: I5.
func TestFirstWakingSetEndsStop(t *testing.T) {
	row := findRow(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	object := customResource(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByStop, resource, object, first)
	held := patched(t, object, actions, err)
	actions, err = row.Hold(ByStop, resource, held, second)
	held = patched(t, held, actions, err)
	actions, err = ReleaseAll(resource, held)
	free := patched(t, held, actions, err)
	if diff := cmp.Diff(withoutEmptyMaps(object), withoutEmptyMaps(free)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	if again, err := ReleaseAll(resource, free); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	if again, err := Release(resource, free, second.Operation, second.Set); err != nil || len(again) > 0 {
		t.Errorf("released for the other: %v, %v", again, err)
	}
}

// TestPauseAndStopExcludeEachOther: a paused operator does not stop its sets, and nothing could tell which settings to restore.
func TestPauseAndStopExcludeEachOther(t *testing.T) {
	row := findRow(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	file := golden.Open(t)
	for _, by := range []Means{ByPause, ByStop} {
		other := ByStop
		if by == ByStop {
			other = ByPause
		}
		object := customResource(row, nil)
		resource := resourceOf(t, row, object)
		actions, err := row.Hold(by, resource, object, first)
		held := patched(t, object, actions, err)
		_, err = row.Hold(other, resource, held, second)
		file.Entry(t, fmt.Sprintf("%s after %s", other, by), fmt.Sprint(err))
		if row.Held(other, held) {
			t.Errorf("held by %s, it counts as held by %s", by, other)
		}
	}
}

// TestForeignPausePreventsStop: a user's pause makes the operator ignore a stop.
func TestForeignPausePreventsStop(t *testing.T) {
	row := findRow(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	object := customResource(row, map[string]any{"spec": map[string]any{"paused": true}})
	_, err := row.Hold(ByStop, resourceOf(t, row, object), object, first)
	golden.Equal(t, fmt.Sprintln(err))
}

// TestRowWithoutPauseIsNotPaused: such a resource never counts as paused.
func TestRowWithoutPauseIsNotPaused(t *testing.T) {
	row := findRow(t, "pxc.percona.com", "PerconaXtraDBCluster")
	object := customResource(row, nil)
	_, err := row.Hold(ByPause, resourceOf(t, row, object), object, first)
	golden.Equal(t, fmt.Sprintln(err))
	if row.Paused(object) {
		t.Error("a resource without a pause counts as paused")
	}
}

// rowWithLists has a stop that goes through two lists.
var rowWithLists = Row{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"),
	Stop: []Setting{field("spec.sites[*].parts[*].off.now", true)}}

func site(name string, parts ...any) map[string]any {
	return map[string]any{"name": name, "parts": parts}
}

func anvil(sites ...any) *unstructured.Unstructured {
	return customResource(rowWithLists, map[string]any{"spec": map[string]any{"sites": sites}})
}

// TestStopSetsEveryListItem: the record names each item of the lists.
func TestStopSetsEveryListItem(t *testing.T) {
	object := anvil(site("east", named("a"), named("b")), site("west", map[string]any{"name": "a.1", "off": map[string]any{"now": "no"}}))
	checkHoldAndRelease(t, rowWithLists, ByStop, object)
	actions, err := rowWithLists.Hold(ByStop, "x", object, first)
	pause, _ := api.LoadPause(patched(t, object, actions, err))
	var got []string
	for _, m := range pause.Settings {
		got = append(got, m.Key)
	}
	want := []string{"spec.sites[name=east].parts[metadata.name=a].off.now", "spec.sites[name=east].parts[metadata.name=b].off.now",
		"spec.sites[name=west].parts[name=a.1].off.now"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestUnfindableListItemsAreRefused: if not every item can be set and found again, nothing is written.
func TestUnfindableListItemsAreRefused(t *testing.T) {
	objects := map[string]*unstructured.Unstructured{
		"no list":                        customResource(rowWithLists, map[string]any{"spec": map[string]any{}}),
		"no spec":                        customResource(rowWithLists, nil),
		"an empty list":                  anvil(),
		"a list that is something else":  customResource(rowWithLists, map[string]any{"spec": map[string]any{"sites": "x"}}),
		"an item with an empty list":     anvil(site("east", named("a")), site("west")),
		"an item without a name":         anvil(map[string]any{"parts": []any{named("a")}}),
		"an item that is not an object":  anvil("east"),
		"two items with one name":        anvil(site("east", named("a")), site("east", named("b"))),
		"a name with a bracket":          anvil(site("a].b", named("a"))),
		"a name that is *":               anvil(site("*", named("a"))),
		"a parent that is not an object": anvil(site("east", map[string]any{"name": "a", "off": "yes"})),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		t.Run(name, func(t *testing.T) {
			actions, err := rowWithLists.Hold(ByStop, "x", objects[name], first)
			if err == nil || len(actions) > 0 {
				t.Fatalf("%v, %v", actions, err)
			}
			file.Entry(t, name, err.Error())
			if rowWithLists.Held(ByStop, objects[name]) {
				t.Error("it counts as held")
			}
		})
	}
}

// TestChangedListIsRestoredByName: held items are found by their names, and nothing else is written.
func TestChangedListIsRestoredByName(t *testing.T) {
	object := anvil(site("east", named("a")), site("west", named("b")))
	actions, err := rowWithLists.Hold(ByStop, "x", object, first)
	held := patched(t, object, actions, err)
	items, _, _ := unstructured.NestedSlice(held.Object, "spec", "sites")
	off := func(name string) map[string]any {
		part := named(name)
		part["off"] = map[string]any{"now": true}
		return part
	}
	for name, tc := range map[string]struct{ now, want []any }{
		"one was put before them": {[]any{site("new", off("x")), items[0], items[1]}, []any{site("new", off("x")),
			site("east", named("a")), site("west", named("b"))}},
		"they changed places": {[]any{items[1], items[0]}, []any{site("west", named("b")), site("east", named("a"))}},
		"one has gone":        {[]any{items[1]}, []any{site("west", named("b"))}},
		"two have the same name": {[]any{items[0], site("west", off("b")), site("west", off("b"))},
			[]any{site("east", named("a")), site("west", off("b")), site("west", off("b"))}},
		"one was renamed": {[]any{items[0], site("south", off("b"))}, []any{site("east", named("a")), site("south", off("b"))}},
		"all have gone":   {[]any{}, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := held.DeepCopy()
			_ = unstructured.SetNestedSlice(changed.Object, tc.now, "spec", "sites")
			actions, err := Release("x", changed, first.Operation, first.Set)
			got, _, _ := unstructured.NestedSlice(patched(t, changed, actions, err).Object, "spec", "sites")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestNewListItemIsHeld: an item that was added later is held and restored with the others.
func TestNewListItemIsHeld(t *testing.T) {
	object := anvil(site("east", named("a")))
	actions, err := rowWithLists.Hold(ByStop, "x", object, first)
	held := patched(t, object, actions, err)
	items, _, _ := unstructured.NestedSlice(held.Object, "spec", "sites")
	_ = unstructured.SetNestedSlice(held.Object, append([]any{site("new", named("n"))}, items...), "spec", "sites")
	if rowWithLists.Held(ByStop, held) {
		t.Fatal("a running item counts as held")
	}
	actions, err = rowWithLists.Hold(ByStop, "x", held, first)
	held = patched(t, held, actions, err)
	if !rowWithLists.Held(ByStop, held) {
		t.Fatal("it is not held")
	}
	actions, err = Release("x", held, first.Operation, first.Set)
	if diff := cmp.Diff(withoutEmptyMaps(anvil(site("new", named("n")), site("east", named("a")))),
		withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSharedParentsAreRemovedLast: a created parent is removed with the last field in it.
func TestSharedParentsAreRemovedLast(t *testing.T) {
	row := Row{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"),
		Stop: []Setting{field("spec.power.main.off", true), field("spec.power.spare", "off"), field("spec.power.main.locked", true),
			field("spec.size", zeroReplicas)}}
	for name, content := range map[string]map[string]any{
		"nothing was there":         nil,
		"the spec was there":        {"spec": map[string]any{"size": int64(3)}},
		"a parent was there, empty": {"spec": map[string]any{"power": map[string]any{}}},
		"a parent was there":        {"spec": map[string]any{"power": map[string]any{"main": map[string]any{"off": false}, "spare": "on"}}},
		"something else is in it":   {"spec": map[string]any{"power": map[string]any{"main": map[string]any{"cable": "red"}}}},
	} {
		t.Run(name, func(t *testing.T) { checkHoldAndRelease(t, row, ByStop, customResource(row, content)) })
	}
}

// TestNullCountsAsMissing: Stackable's definitions store null for an unset field.
func TestNullCountsAsMissing(t *testing.T) {
	row := findRow(t, "hdfs.stackable.tech", "HdfsCluster")
	object := customResource(row, map[string]any{"spec": map[string]any{"clusterOperation": nil, "image": "x"}})
	actions, err := row.Hold(ByStop, "x", object, first)
	held := patched(t, object, actions, err)
	if !row.Held(ByStop, held) {
		t.Errorf("it is not held: %v", held.Object)
	}
	actions, err = Release("x", held, first.Operation, first.Set)
	want := customResource(row, map[string]any{"spec": map[string]any{"image": "x"}})
	if diff := cmp.Diff(withoutEmptyMaps(want), withoutEmptyMaps(patched(t, held, actions, err))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestRecordedParentsAreChecked: a recorded parent is removed only if nothing else is in it.
func TestRecordedParentsAreChecked(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	object := customResource(row, map[string]any{"spec": map[string]any{"paused": true}})
	doc, _ := json.Marshal(map[string]any{"version": 1, "made": []any{map[string]any{"in": "field", "key": "spec.paused", "value": true,
		"parents": 1000}}})
	object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: string(doc)})
	actions, err := Release("x", object, "one", "web-0")
	if got := patched(t, object, actions, err); got.GetName() != "main" || got.Object["spec"] != nil {
		t.Errorf("%v", got.Object)
	}
}
