package sift

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
)

// findings are the results of a sweep: one notice for each set, and the operations that it has seen.
type findings struct {
	tick    string
	sets    int
	order   []events.Ref
	notices map[events.Ref]notice
	figures *figures
	// active maps the active operations that a record on their set names to their kinds.
	active map[operationKey]api.Kind
	// stops holds the operations that have stopped the pods of a set, which has the Stop.
	stops map[operationKey]bool
	// replicasRestored holds the operations that have restored the replicas of their set. Their paused owner must be resumed.
	replicasRestored map[operationKey]bool
	// scaledSets holds the sets with a scale record: a Scaler scales them, or has scaled them.
	scaledSets map[events.Ref]scaledSet
	// waitingTurns has the notices of the resizes that wait for their turn, by operation.
	waitingTurns map[string]*notice
	// inJournals holds the operations that a journal (a ControllerRevision) names.
	inJournals map[operationKey]bool
	// incomplete holds the namespaces with a forbidden list. A missing record proves nothing there.
	incomplete map[string]bool
}

// operationKey identifies an operation. The id alone does not: a tenant may write the id of an operation in another namespace.
type operationKey struct{ namespace, id string }

// scaledSet is a set with a scale record.
type scaledSet struct {
	members int32
	asleep  bool // it is held at zero for its sleep
	notice  notice
}

func newFindings(now time.Time) *findings {
	return &findings{tick: fmt.Sprint(now.Unix()), notices: map[events.Ref]notice{}, figures: newFigures(),
		active: map[operationKey]api.Kind{}, stops: map[operationKey]bool{}, replicasRestored: map[operationKey]bool{},
		scaledSets: map[events.Ref]scaledSet{}, waitingTurns: map[string]*notice{},
		inJournals: map[operationKey]bool{}, incomplete: map[string]bool{}}
}

// isActive reports whether a record on a set names the operation as active.
func (r *findings) isActive(operation operationKey) bool {
	_, active := r.active[operation]
	return active
}

// isOver reports whether the sweep found no set and no journal that names the operation.
func (r *findings) isOver(operation operationKey) bool {
	return !r.isActive(operation) && !r.inJournals[operation]
}

// add adds a notice. Notices for the same set are merged: an unmet request may wait until the rest of an older operation is removed, so
// both functions must be woken. The merged notice names an operation if one of them does, because scale looks for the records of stops only
// then. Which one does not matter.
func (r *findings) add(n notice) {
	key := events.Ref{Namespace: n.ref.Namespace, Name: n.ref.Name}
	if known, ok := r.notices[key]; ok {
		if known.ref.Operation == "" {
			known.ref.Operation = n.ref.Operation
		}
		for _, f := range n.functions {
			if !slices.Contains(known.functions, f) {
				known.functions = append(slices.Clip(known.functions), f)
			}
		}
		r.notices[key] = known
		return
	}
	if len(n.functions) == 0 {
		return
	}
	n.cause = "tick/" + r.tick + "/" + n.cause
	r.order, r.notices[key] = append(r.order, key), n
}

// addRecords counts the set, and adds the operations of its records.
func (r *findings) addRecords(set *appsv1.StatefulSet, records operation.Records) {
	r.sets++
	for _, record := range records.All() {
		key := operationKey{set.Namespace, record.Head().Operation}
		if record.Active() {
			r.active[key] = record.Head().Kind
		}
		if operation.NoLongerStops(set, record) {
			r.replicasRestored[key] = true
		}
	}
	if stop := api.LoadStop(set); stop.Pending() { // its record needs no attention
		r.stops[operationKey{set.Namespace, stop.Operation}] = true
	}
}

// queues returns the notices by namespace, each queue in the order of the sweep.
func (r *findings) queues() [][]notice {
	var queues [][]notice
	index := map[string]int{}
	for _, ref := range r.order {
		position, known := index[ref.Namespace]
		if !known {
			position, queues = len(queues), append(queues, nil)
			index[ref.Namespace] = position
		}
		queues[position] = append(queues[position], r.notices[ref])
	}
	return queues
}
