package gateway

import (
	"maps"
	"slices"
)

// Types of the events of a stream (sablierapp/sablier internal/api/instance_events.go).
const (
	eventCreated = "created"
	eventUpdated = "updated"
	eventRemoved = "removed"
	eventStarted = "started"
	eventStopped = "stopped"
)

// Change is a difference of one set between two observations.
type Change struct {
	Type string
	Set  Set
}

// changes compares two observations. Sets of the first observation count as created, as in a watch. Without types it returns changes
// of every type.
func changes(before map[Ref]Set, after []Set, types []string) []Change {
	var found []Change
	add := func(kind string, set Set) {
		if len(types) == 0 || slices.Contains(types, kind) {
			found = append(found, Change{kind, set})
		}
	}
	left := maps.Clone(before)
	for _, set := range after {
		old, known := before[set.Ref]
		if set.State != Missing || old.State == Missing { // an optional set that is gone is in both
			delete(left, set.Ref)
		}
		switch {
		case set.State == Missing:
		case !known || old.State == Missing:
			add(eventCreated, set)
		case old.Replicas > 0 && set.Replicas == 0:
			add(eventStopped, set)
		case old.Replicas == 0 && set.Replicas > 0:
			add(eventStarted, set)
		case old.Status != set.Status:
			add(eventUpdated, set)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(left), compareRefs) {
		set := left[ref]
		set.State, set.Ready = Stopped, 0
		add(eventRemoved, set)
		add(eventStopped, set)
	}
	return found
}

// byRef returns the sets by name.
func byRef(sets []Set) map[Ref]Set {
	by := map[Ref]Set{}
	for _, set := range sets {
		by[set.Ref] = set
	}
	return by
}
