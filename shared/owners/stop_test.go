package owners

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
)

// TestI4ReplicasComeBackExactly: what was there is recorded as JSON, and comes back as the number that it was.
// Invariants: I4.
func TestI4ReplicasComeBackExactly(t *testing.T) {
	row := find(t, "rabbitmq.com", "RabbitmqCluster")
	for name, spec := range map[string]map[string]any{
		"a number":                            {"replicas": int64(5)},
		"a number that no float64 has":        {"replicas": int64(9007199254740993)},
		"nothing, and the operator's default": {"image": "rabbitmq"},
		"no spec at all":                      nil,
		"something that is no whole number":   {"replicas": 1.5},
		"something that is no number":         {"replicas": map[string]any{"min": int64(9007199254740993), "of": []any{int64(1), 2.5, "x", true}}},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string]any{}
			if spec != nil {
				content["spec"] = spec
			}
			object := custom(row, content)
			holdsAndPutsBack(t, row, ByStop, object)
			actions, err := row.Hold(ByStop, resourceOf(t, row, object), object, first)
			if got := at(after(t, object, actions, err).Object, []string{"spec", "replicas"}); got != none {
				t.Errorf("held at %v (%T), want 0", got, got)
			}
		})
	}
}

// TestI4WhatSomebodyElseScaledToStays.
// Invariants: I4.
func TestI4WhatSomebodyElseScaledToStays(t *testing.T) {
	row := find(t, "rabbitmq.com", "RabbitmqCluster")
	object := custom(row, map[string]any{"spec": map[string]any{"replicas": int64(5)}})
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByStop, resource, object, first)
	held := after(t, object, actions, err)
	_ = unstructured.SetNestedField(held.Object, int64(2), "spec", "replicas")
	actions, err = Release(resource, held, first.Operation)
	got := after(t, held, actions, err)
	if replicas := at(got.Object, []string{"spec", "replicas"}); replicas != int64(2) || len(got.GetAnnotations()) > 0 {
		t.Errorf("%v replicas, annotations %v", replicas, got.GetAnnotations())
	}
}

// TestI5AStopOfSomebodyElseStays: 0 replicas were there before.
// Invariants: I5.
func TestI5AStopOfSomebodyElseStays(t *testing.T) {
	row := find(t, "rabbitmq.com", "RabbitmqCluster")
	object := custom(row, map[string]any{"spec": map[string]any{"replicas": int64(0)}})
	if actions, err := row.Hold(ByStop, resourceOf(t, row, object), object, first); err != nil || len(actions) > 0 || !row.Held(ByStop, object) {
		t.Errorf("%v, %v", actions, err)
	}
}

// TestI5TheFirstThatWakesEndsTheStop, for all sets of the owner; the others find nothing to end.
// Invariants: I5.
func TestI5TheFirstThatWakesEndsTheStop(t *testing.T) {
	row := find(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	object := custom(row, nil)
	resource := resourceOf(t, row, object)
	actions, err := row.Hold(ByStop, resource, object, first)
	held := after(t, object, actions, err)
	actions, err = row.Hold(ByStop, resource, held, second)
	held = after(t, held, actions, err)
	actions, err = ReleaseAll(resource, held)
	free := after(t, held, actions, err)
	if diff := cmp.Diff(stripped(object), stripped(free)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	if again, err := ReleaseAll(resource, free); err != nil || len(again) > 0 {
		t.Errorf("released again: %v, %v", again, err)
	}
	if again, err := Release(resource, free, second.Operation); err != nil || len(again) > 0 {
		t.Errorf("released for the other: %v, %v", again, err)
	}
}

// TestMeansAreNotMixed: an operator that looks away does not stop, and what puts things back would be somebody's guess.
func TestMeansAreNotMixed(t *testing.T) {
	row := find(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	file := golden.Open(t)
	for _, by := range []Means{ByPause, ByStop} {
		other := ByStop
		if by == ByStop {
			other = ByPause
		}
		object := custom(row, nil)
		resource := resourceOf(t, row, object)
		actions, err := row.Hold(by, resource, object, first)
		held := after(t, object, actions, err)
		_, err = row.Hold(other, resource, held, second)
		file.Entry(t, fmt.Sprintf("%s after %s", other, by), fmt.Sprint(err))
		if row.Held(other, held) {
			t.Errorf("held by %s, it passes as held by %s", by, other)
		}
	}
}

// TestSomebodyElsesPauseKeepsAStopFromWorking.
func TestSomebodyElsesPauseKeepsAStopFromWorking(t *testing.T) {
	row := find(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	object := custom(row, map[string]any{"spec": map[string]any{"paused": true}})
	_, err := row.Hold(ByStop, resourceOf(t, row, object), object, first)
	golden.Equal(t, fmt.Sprintln(err))
}

func TestMeansThatTheRowLacks(t *testing.T) {
	row := find(t, "pxc.percona.com", "PerconaXtraDBCluster")
	object := custom(row, nil)
	_, err := row.Hold(ByPause, resourceOf(t, row, object), object, first)
	golden.Equal(t, fmt.Sprintln(err))
	if row.Paused(object) {
		t.Error("what cannot be paused passes as paused")
	}
}

// lists is a row with a stop that goes through two lists.
var lists = Row{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"),
	Stop: []Setting{field("spec.sites[*].parts[*].off.now", true)}}

func site(name string, parts ...any) map[string]any {
	return map[string]any{"name": name, "parts": parts}
}

func anvil(sites ...any) *unstructured.Unstructured {
	return custom(lists, map[string]any{"spec": map[string]any{"sites": sites}})
}

func TestListItems(t *testing.T) {
	object := anvil(site("east", named("a"), named("b")), site("west", map[string]any{"name": "a.1", "off": map[string]any{"now": "no"}}))
	holdsAndPutsBack(t, lists, ByStop, object)
	actions, err := lists.Hold(ByStop, "x", object, first)
	pause, _ := api.LoadPause(after(t, object, actions, err))
	var got []string
	for _, m := range pause.Made {
		got = append(got, m.Key)
	}
	want := []string{"spec.sites[name=east].parts[metadata.name=a].off.now", "spec.sites[name=east].parts[metadata.name=b].off.now",
		"spec.sites[name=west].parts[name=a.1].off.now"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestListItemsThatCannotBeHeld: not all of them, or not to be found again. Nothing is written then.
func TestListItemsThatCannotBeHeld(t *testing.T) {
	objects := map[string]*unstructured.Unstructured{
		"no list":                        custom(lists, map[string]any{"spec": map[string]any{}}),
		"no spec":                        custom(lists, nil),
		"an empty list":                  anvil(),
		"a list that is something else":  custom(lists, map[string]any{"spec": map[string]any{"sites": "x"}}),
		"an item with an empty list":     anvil(site("east", named("a")), site("west")),
		"an item without a name":         anvil(map[string]any{"parts": []any{named("a")}}),
		"an item that is no object":      anvil("east"),
		"two items of one name":          anvil(site("east", named("a")), site("east", named("b"))),
		"a name that is no part of path": anvil(site("a].b", named("a"))),
		"a name with the items' sign":    anvil(site("*", named("a"))),
		"a parent that is no object":     anvil(site("east", map[string]any{"name": "a", "off": "yes"})),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		t.Run(name, func(t *testing.T) {
			actions, err := lists.Hold(ByStop, "x", objects[name], first)
			if err == nil || len(actions) > 0 {
				t.Fatalf("%v, %v", actions, err)
			}
			file.Entry(t, name, err.Error())
			if lists.Held(ByStop, objects[name]) {
				t.Error("it passes as held")
			}
		})
	}
}

// TestListsThatChangeMeanwhile: what was held is found by its name, and nothing else is written.
func TestListsThatChangeMeanwhile(t *testing.T) {
	object := anvil(site("east", named("a")), site("west", named("b")))
	actions, err := lists.Hold(ByStop, "x", object, first)
	held := after(t, object, actions, err)
	items, _, _ := unstructured.NestedSlice(held.Object, "spec", "sites")
	off := func(name string) map[string]any {
		part := named(name)
		part["off"] = map[string]any{"now": true}
		return part
	}
	for name, tc := range map[string]struct{ now, want []any }{
		"one was put before them": {[]any{site("new", off("x")), items[0], items[1]}, []any{site("new", off("x")), site("east", named("a")), site("west", named("b"))}},
		"they changed places":     {[]any{items[1], items[0]}, []any{site("west", named("b")), site("east", named("a"))}},
		"one has gone":            {[]any{items[1]}, []any{site("west", named("b"))}},
		"there are two of a name": {[]any{items[0], site("west", off("b")), site("west", off("b"))},
			[]any{site("east", named("a")), site("west", off("b")), site("west", off("b"))}},
		"one was named otherwise": {[]any{items[0], site("south", off("b"))}, []any{site("east", named("a")), site("south", off("b"))}},
		"all have gone":           {[]any{}, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := held.DeepCopy()
			_ = unstructured.SetNestedSlice(changed.Object, tc.now, "spec", "sites")
			actions, err := Release("x", changed, first.Operation)
			got, _, _ := unstructured.NestedSlice(after(t, changed, actions, err).Object, "spec", "sites")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestANewItemIsHeldToo, and put back with the others.
func TestANewItemIsHeldToo(t *testing.T) {
	object := anvil(site("east", named("a")))
	actions, err := lists.Hold(ByStop, "x", object, first)
	held := after(t, object, actions, err)
	items, _, _ := unstructured.NestedSlice(held.Object, "spec", "sites")
	_ = unstructured.SetNestedSlice(held.Object, append([]any{site("new", named("n"))}, items...), "spec", "sites")
	if lists.Held(ByStop, held) {
		t.Fatal("an item that runs passes as held")
	}
	actions, err = lists.Hold(ByStop, "x", held, first)
	held = after(t, held, actions, err)
	if !lists.Held(ByStop, held) {
		t.Fatal("it is not held")
	}
	actions, err = Release("x", held, first.Operation)
	if diff := cmp.Diff(stripped(anvil(site("new", named("n")), site("east", named("a")))), stripped(after(t, held, actions, err))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestParentsOfSeveralFields go with the last one that is in them.
func TestParentsOfSeveralFields(t *testing.T) {
	row := Row{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"),
		Stop: []Setting{field("spec.power.main.off", true), field("spec.power.spare", "off"), field("spec.power.main.locked", true), field("spec.size", none)}}
	for name, content := range map[string]map[string]any{
		"nothing was there":         nil,
		"the spec was there":        {"spec": map[string]any{"size": int64(3)}},
		"a parent was there, empty": {"spec": map[string]any{"power": map[string]any{}}},
		"a parent was there":        {"spec": map[string]any{"power": map[string]any{"main": map[string]any{"off": false}, "spare": "on"}}},
		"something else is in it":   {"spec": map[string]any{"power": map[string]any{"main": map[string]any{"cable": "red"}}}},
	} {
		t.Run(name, func(t *testing.T) { holdsAndPutsBack(t, row, ByStop, custom(row, content)) })
	}
}

// TestNullIsNothing: Stackable's definitions keep one where nothing is said.
func TestNullIsNothing(t *testing.T) {
	row := find(t, "hdfs.stackable.tech", "HdfsCluster")
	object := custom(row, map[string]any{"spec": map[string]any{"clusterOperation": nil, "image": "x"}})
	actions, err := row.Hold(ByStop, "x", object, first)
	held := after(t, object, actions, err)
	if !row.Held(ByStop, held) {
		t.Errorf("it is not held: %v", held.Object)
	}
	actions, err = Release("x", held, first.Operation)
	want := custom(row, map[string]any{"spec": map[string]any{"image": "x"}})
	if diff := cmp.Diff(stripped(want), stripped(after(t, held, actions, err))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestParentsOfARecordAreBelieved only as far as there is nothing else in them.
func TestParentsOfARecordAreBelieved(t *testing.T) {
	row := find(t, "monitoring.coreos.com", "Prometheus")
	object := custom(row, map[string]any{"spec": map[string]any{"paused": true}})
	doc, _ := json.Marshal(map[string]any{"version": 1, "made": []any{map[string]any{"in": "field", "key": "spec.paused", "value": true, "parents": 1000}}})
	object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: string(doc)})
	actions, err := Release("x", object, "one")
	if got := after(t, object, actions, err); got.GetName() != "main" || got.Object["spec"] != nil {
		t.Errorf("%v", got.Object)
	}
}
