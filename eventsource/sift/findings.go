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
	// active maps the ids of active operations that a record on their set names to their kinds.
	active map[string]api.Kind
	// replicasRestored holds the ids of operations that have restored the replicas of their set. Their paused owner must be resumed.
	replicasRestored map[string]bool
	// scaledSets holds the sets with a scale record: a Scaler scales them, or has scaled them.
	scaledSets map[events.Ref]scaledSet
	// waitingTurns has the notices of the resizes that wait for their turn, by operation.
	waitingTurns map[string]*notice
	// inJournals holds the ids of operations that a journal (a ControllerRevision) names.
	inJournals map[string]bool
}

// scaledSet is a set with a scale record.
type scaledSet struct {
	members int32
	notice  notice
}

func newFindings(now time.Time) *findings {
	return &findings{tick: fmt.Sprint(now.Unix()), notices: map[events.Ref]notice{}, figures: newFigures(), active: map[string]api.Kind{},
		replicasRestored: map[string]bool{}, scaledSets: map[events.Ref]scaledSet{}, waitingTurns: map[string]*notice{}}
}

// isActive reports whether a record on a set names the operation as active.
func (r *findings) isActive(operation string) bool {
	_, active := r.active[operation]
	return active
}

// addJournal adds an operation that a journal names.
func (r *findings) addJournal(operation string) {
	if r.inJournals == nil {
		r.inJournals = map[string]bool{}
	}
	r.inJournals[operation] = true
}

// add adds a notice. Notices for the same set are merged: an unmet request may wait until the rest of an older operation is removed, so
// both functions must be woken.
func (r *findings) add(n notice) {
	key := events.Ref{Namespace: n.ref.Namespace, Name: n.ref.Name}
	if known, ok := r.notices[key]; ok {
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
		id := record.Head().Operation
		if record.Active() {
			r.active[id] = record.Head().Kind
		}
		if operation.NoLongerStops(set, record) {
			r.replicasRestored[id] = true
		}
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
