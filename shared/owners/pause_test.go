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

// held is the object after a hold for an operation.
func held(t *testing.T, row Row, by Means, object *unstructured.Unstructured, of api.Holder) *unstructured.Unstructured {
	t.Helper()
	actions, err := row.Hold(by, resourceOf(t, row, object), object, of)
	return patched(t, object, actions, err)
}

// released is the object after a release for an operation.
func released(t *testing.T, object *unstructured.Unstructured, of api.Holder) *unstructured.Unstructured {
	t.Helper()
	actions, err := Release("x", object, of.Operation, of.Set)
	return patched(t, object, actions, err)
}

// releasedForAll is the object after a release for all operations.
func releasedForAll(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	actions, err := ReleaseAll("x", object)
	return patched(t, object, actions, err)
}

// same fails the test if the objects have different content.
func same(t *testing.T, what string, want, got *unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(withoutEmptyMaps(want), withoutEmptyMaps(got)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
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
	if row.Held(by, object) {
		t.Fatal("it is held already")
	}
	holding := held(t, row, by, object, first)
	if !row.Held(by, holding) {
		t.Errorf("it is not held: %v", holding.Object)
	}
	if again, err := row.Hold(by, resourceOf(t, row, object), holding, first); err != nil || len(again) > 0 {
		t.Errorf("held again: %v, %v", again, err)
	}
	same(t, "released", object, released(t, holding, first))
	same(t, "released for all", object, releasedForAll(t, holding))
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

// TestReleaseKeepsWhatUsersWrite: Drydock records and ends only its own holds, and restores what was there before them.
// Invariants: I4, I5.
func TestReleaseKeepsWhatUsersWrite(t *testing.T) {
	spec := func(content ...any) map[string]any {
		fields := map[string]any{}
		for i := 0; i < len(content); i += 2 {
			fields[content[i].(string)] = content[i+1]
		}
		return map[string]any{"spec": fields}
	}
	pause := findRow(t, "redis.redis.opstreelabs.in", "RedisCluster").Pause[0].Key
	ended := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: o.GetAnnotations()[api.OwnerPausedAnnotation], pause: "false"})
	}
	scaled := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, int64(2), "spec", "replicas")
	}
	for name, row := range map[string]struct {
		group, kind string
		by          Means
		before      map[string]any
		holds       bool // Drydock writes something
		edit        func(*unstructured.Unstructured)
		want        map[string]any
	}{
		"a user had paused it": {"monitoring.coreos.com", "Prometheus", ByPause, spec("paused", true), false, nil, spec("paused", true)},
		"the value before was no pause": {"opentelemetry.io", "OpenTelemetryCollector", ByPause, spec("managementState", "managed"), true, nil,
			spec("managementState", "managed")},
		"a user has ended the pause": {"redis.redis.opstreelabs.in", "RedisCluster", ByPause, nil, true, ended,
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{pause: "false"}}}},
		"a user has scaled it during the stop": {"rabbitmq.com", "RabbitmqCluster", ByStop, spec("replicas", int64(5)), true, scaled,
			spec("replicas", int64(2))},
		"a user had scaled it to zero": {"rabbitmq.com", "RabbitmqCluster", ByStop, spec("replicas", int64(0)), false, nil,
			spec("replicas", int64(0))},
		"Stackable stores null for an unset field": {"hdfs.stackable.tech", "HdfsCluster", ByStop,
			spec("clusterOperation", nil, "image", "x"), true, nil, spec("image", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			of := findRow(t, row.group, row.kind)
			object := customResource(of, row.before)
			holding := held(t, of, row.by, object, first)
			if !of.Held(row.by, holding) || cmp.Equal(object.Object, holding.Object) == row.holds {
				t.Errorf("held: %v", holding.Object)
			}
			if row.edit != nil {
				row.edit(holding)
			}
			same(t, "released", customResource(of, row.want), released(t, holding, first))
		})
	}
}

// TestLastOperationResumes: two sets of one owner may be resized at the same time.
// Invariants: I5.
func TestLastOperationResumes(t *testing.T) {
	row := findRow(t, "redis.redis.opstreelabs.in", "RedisCluster")
	object := customResource(row, nil)
	both := held(t, row, ByPause, held(t, row, ByPause, object, first), second)
	one := released(t, both, first)
	if !row.Paused(one) {
		t.Fatal("the other operation needs the pause")
	}
	if again, err := Release("x", one, first.Operation, first.Set); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	same(t, "released by both", object, released(t, one, second))
}

// TestUndonePauseIsRepeated: what the user has written since then is restored at the end.
// Invariants: I5.
func TestUndonePauseIsRepeated(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	undone := held(t, row, ByPause, customResource(row, map[string]any{"spec": map[string]any{"paused": false}}), first)
	unstructured.RemoveNestedField(undone.Object, "spec", "paused")
	edited := undone.DeepCopy()
	edited.SetAnnotations(nil)
	again := held(t, row, ByPause, undone, first)
	if !row.Paused(again) {
		t.Error("it is not paused again")
	}
	same(t, "released", edited, released(t, again, first))
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
			if got := valueAt(held(t, row, ByStop, object, first).Object, []string{"spec", "replicas"}); got != zeroReplicas {
				t.Errorf("held at %v (%T), want 0", got, got)
			}
		})
	}
}

// TestFirstWakingSetEndsStop: the stop ends for all sets of the owner, and the others find nothing to end.
// Invariants: I5.
func TestFirstWakingSetEndsStop(t *testing.T) {
	row := findRow(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	object := customResource(row, nil)
	free := releasedForAll(t, held(t, row, ByStop, held(t, row, ByStop, object, first), second))
	same(t, "released", object, free)
	if again, err := ReleaseAll("x", free); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	if again, err := Release("x", free, second.Operation, second.Set); err != nil || len(again) > 0 {
		t.Errorf("released for the other: %v, %v", again, err)
	}
}

// TestPauseAndStopExcludeEachOther: a paused operator does not stop its sets, and nothing could tell which settings to restore.
func TestPauseAndStopExcludeEachOther(t *testing.T) {
	row := findRow(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	file := golden.Open(t)
	for by, other := range map[Means]Means{ByPause: ByStop, ByStop: ByPause} {
		holding := held(t, row, by, customResource(row, nil), first)
		_, err := row.Hold(other, "x", holding, second)
		file.Entry(t, fmt.Sprintf("%s after %s", other, by), fmt.Sprint(err))
		if row.Held(other, holding) {
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
	pause, _ := api.LoadPause(held(t, rowWithLists, ByStop, object, first))
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
	holding := held(t, rowWithLists, ByStop, object, first)
	items, _, _ := unstructured.NestedSlice(holding.Object, "spec", "sites")
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
			changed := holding.DeepCopy()
			_ = unstructured.SetNestedSlice(changed.Object, tc.now, "spec", "sites")
			got, _, _ := unstructured.NestedSlice(released(t, changed, first).Object, "spec", "sites")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestNewListItemIsHeld: an item that was added later is held and restored with the others.
func TestNewListItemIsHeld(t *testing.T) {
	holding := held(t, rowWithLists, ByStop, anvil(site("east", named("a"))), first)
	items, _, _ := unstructured.NestedSlice(holding.Object, "spec", "sites")
	_ = unstructured.SetNestedSlice(holding.Object, append([]any{site("new", named("n"))}, items...), "spec", "sites")
	if rowWithLists.Held(ByStop, holding) {
		t.Fatal("a running item counts as held")
	}
	holding = held(t, rowWithLists, ByStop, holding, first)
	if !rowWithLists.Held(ByStop, holding) {
		t.Fatal("it is not held")
	}
	same(t, "released", anvil(site("new", named("n")), site("east", named("a"))), released(t, holding, first))
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

// TestRecordedParentsAreChecked: a recorded parent is removed only if nothing else is in it.
func TestRecordedParentsAreChecked(t *testing.T) {
	row := findRow(t, "monitoring.coreos.com", "Prometheus")
	object := customResource(row, map[string]any{"spec": map[string]any{"paused": true}})
	doc, _ := json.Marshal(map[string]any{"version": 1, "made": []any{map[string]any{"in": "field", "key": "spec.paused", "value": true,
		"parents": 1000}}})
	object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: string(doc)})
	if got := released(t, object, first); got.GetName() != "main" || got.Object["spec"] != nil {
		t.Errorf("%v", got.Object)
	}
}
