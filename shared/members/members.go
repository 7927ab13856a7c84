// Package members keeps the ledger of a StatefulSet: which pods it has, running or stopped, and which are to be removed with their claims.
// It is pure.
//
// A claim is deleted only for an order in the ledger, and an order needs proof that a pod is not expected back. So a lost or outdated
// ledger keeps claims. It never deletes them.
package members

import (
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Keeps reports whether the set has a ledger: its user wants removed pods to be cleaned up.
func Keeps(set *appsv1.StatefulSet) bool {
	return statefulset.Managed(set) && statefulset.CleanupAsked(set) && set.DeletionTimestamp == nil
}

// Due reports whether a look at the set would change its ledger.
func Due(set *appsv1.StatefulSet) bool {
	written := set.Annotations[api.LedgerAnnotation]
	if !Keeps(set) {
		return written != "" && set.DeletionTimestamp == nil && statefulset.Managed(set)
	}
	_, ordered := set.Annotations[api.CleanupFromAnnotation]
	return ordered || Next(set, false).Encode() != written
}

// Removes reports whether the ordinal is to be removed with its claims: the ledger has an order, or the set is deleted with
// cleanup-on-delete.
func Removes(set *appsv1.StatefulSet, ordinal int) bool {
	if set.DeletionTimestamp != nil {
		return set.Annotations[api.CleanupOnDeleteAnnotation] == "true"
	}
	l := api.LoadLedger(set)
	return l != nil && l.Removing != nil && l.Removing.Start <= ordinal && ordinal < l.Removing.End
}

// Ordered returns the number of the order in the set's ledger, or that of the last order if none is left.
func Ordered(set *appsv1.StatefulSet) int {
	switch l := api.LoadLedger(set); {
	case l == nil:
		return 0
	case l.Removing == nil:
		return l.Orders
	default:
		return l.Removing.Order
	}
}

// Orders reports whether the set has just been scaled down, so that Next returns a new order unless something holds its pods.
func Orders(set *appsv1.StatefulSet) bool {
	if !Keeps(set) {
		return false
	}
	former, next := api.LoadLedger(set), Next(set, false)
	return former != nil && next.Orders > former.Orders
}

// Next returns the ledger after a look at the set. held says that something besides the set's own records keeps its pods away for a while.
func Next(set *appsv1.StatefulSet, held bool) *api.Ledger {
	start, replicas := statefulset.Start(set), int(statefulset.Replicas(set))
	former := api.LoadLedger(set)
	if former == nil || former.Start != start { // the pods below a higher start belong to another set
		return &api.Ledger{Set: api.SetRef{Name: set.Name, UID: set.UID}, Start: start, Count: replicas, Complete: true,
			Generation: set.Generation}
	}
	l := withoutDone(*former, operation.Of(set).Cleanup)
	missed := set.Generation > l.Generation+1 // another count may have come and gone
	l.Generation = set.Generation
	if l.Removing != nil && l.Removing.Start < start+replicas { // a scale-up needs them
		kept := *l.Removing
		if kept.Start = start + replicas; kept.Start < kept.End {
			l.Removing = &kept
		} else {
			l.Removing = nil
		}
	}
	switch stays := staying(&l); {
	case replicas >= l.Count:
		l.Count, l.Complete = replicas, true
	case missed:
		l.Complete, l.Removing = false, nil
	case replicas == stays:
		l.Complete = true
	case !l.Complete: // the others are expected back
	case held || isStopped(set):
		l.Complete = false
	case !isUndecided(set):
		order(&l, start+replicas, start+l.Count)
	}
	return &l
}

// Order returns the ledger with the order of a user to remove the pods from the ordinal on. They may be older than the ledger, so the order
// has no end. The error says why these pods are expected back.
func Order(set *appsv1.StatefulSet, written string) (*api.Ledger, error) {
	from, err := strconv.Atoi(written)
	records, l := operation.Of(set), Next(set, false)
	stay := statefulset.Span(set).End
	if records.Scale != nil {
		stay = max(stay, l.Start+int(records.Scale.Target))
	}
	switch {
	case err != nil || from < 0:
		return nil, fmt.Errorf("%q is not an ordinal. Set it to the first ordinal to remove", text.Clip(written, 20))
	case records.Sleeping() || records.Scaling() || records.Scale != nil && records.Scale.Paused:
		return nil, errors.New("a sleep, a pause or a scaling keeps pods away for a while. Ask again when it has ended")
	case from < stay:
		return nil, fmt.Errorf("pod %s-%d is requested. Scale down first, or name an ordinal from %d", set.Name, from, stay)
	}
	order(l, from, api.NoEnd)
	return l, nil
}

// Missing returns the span of the pods that the set does not request now, and that are expected back.
func Missing(l *api.Ledger, set *appsv1.StatefulSet) (missing api.Span, some bool) {
	span := api.Span{Start: statefulset.Span(set).End, End: l.Start + staying(l)}
	return span, statefulset.Replicas(set) > 0 && span.Start < span.End && !l.Complete
}

// withoutDone returns the ledger without an order that cleanup-pod has carried out.
func withoutDone(l api.Ledger, cleanup *api.Cleanup) api.Ledger {
	if l.Removing != nil && cleanup != nil && cleanup.Phase == api.Succeeded && cleanup.Order == l.Removing.Order {
		l.Count, l.Removing = staying(&l), nil
	}
	return l
}

// staying returns how many pods stay if the order is carried out.
func staying(l *api.Ledger) int {
	if l.Removing == nil {
		return l.Count
	}
	return min(l.Count, l.Removing.Start-l.Start)
}

// isStopped reports whether the pods that the set does not request are expected back. Zero replicas are a stop, unless the set's user says
// otherwise.
func isStopped(set *appsv1.StatefulSet) bool {
	records := operation.Of(set)
	return records.Sleeping() || records.ScaleErr != nil || records.Scale != nil && records.Scale.Paused ||
		statefulset.Replicas(set) == 0 && set.Annotations[api.CleanupAtZeroAnnotation] != "true"
}

// isUndecided reports whether a Scaler has to act first: it may restore the count, and its hooks drain the pods before they are removed.
func isUndecided(set *appsv1.StatefulSet) bool {
	records := operation.Of(set)
	s := records.Scale
	return s != nil && (s.Target != statefulset.Replicas(set) || s.Phase != api.Succeeded && !records.AwaitsCleanup())
}

// order adds the ordinals of the span to the order.
func order(l *api.Ledger, from, end int) {
	if l.Removing != nil {
		from, end = min(from, l.Removing.Start), max(end, l.Removing.End)
	}
	l.Orders++
	l.Removing = &api.Removal{Span: api.Span{Start: from, End: end}, Order: l.Orders}
}
