// Package members has the rules about pods that are not requested now: members.go keeps the ledger of a StatefulSet, which says which pods
// it has, running or stopped, and which are to be removed with their claims. stop.go has the next step of a stop, after which the pods come
// back. It is pure.
//
// A claim is deleted only for an order in the ledger, or with a set that has cleanup-on-delete. An order needs proof that a pod is not
// expected back. So a lost or outdated ledger keeps claims. It never deletes them.
package members

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// Facts are what the set itself does not show.
type Facts struct {
	// Held says that something besides the set's own records keeps its pods away for a while. It is asked for before a new order.
	Held bool
	// Begun has the ordinals with a cleanup pod. It is asked for when a scale-up needs ordinals that are to be removed.
	Begun []int
}

// Due reports whether a look at the set may change its ledger.
func Due(set *appsv1.StatefulSet) bool {
	_, ordered := Asked(set)
	written := set.Annotations[api.LedgerAnnotation]
	if !Keeps(set) {
		return (ordered || written != "") && set.DeletionTimestamp == nil && statefulset.Managed(set)
	}
	return ordered || Next(set, Facts{}).Encode() != written
}

// Current reports whether the ledger has counted the present spec. Until then, its order may be outdated.
func Current(set *appsv1.StatefulSet) bool {
	l := api.LoadLedger(set)
	return l != nil && l.Generation == set.Generation
}

// GoesWithItsData reports whether the deletion of the set orders the cleanup of all its members. The deletion by an operator does not say
// that: many delete their set to create it again, for example after a change of a size.
func GoesWithItsData(set *appsv1.StatefulSet) bool {
	return set.Annotations[api.CleanupOnDeleteAnnotation] == "true" && !IsMade(set)
}

// IsMade reports whether another object has made the set. Some operators set an owner that is no controller.
func IsMade(set *appsv1.StatefulSet) bool { return len(set.OwnerReferences) > 0 }

// Removes reports whether the ordinal is to be removed with its claims: the ledger has an order, or the set is deleted and goes with its
// data.
func Removes(set *appsv1.StatefulSet, ordinal int) bool {
	if set.DeletionTimestamp != nil {
		return GoesWithItsData(set)
	}
	l := api.LoadLedger(set)
	return l != nil && l.Removing != nil && l.Removing.Start <= ordinal && ordinal < l.Removing.End
}

// OrderNumber returns the number of the order in the set's ledger, or that of the last order if none is left.
func OrderNumber(set *appsv1.StatefulSet) int {
	switch l := api.LoadLedger(set); {
	case l == nil:
		return 0
	case l.Removing == nil:
		return l.Orders
	default:
		return l.Removing.Order
	}
}

// GivesOrder reports whether the set has just been scaled down, so that Next returns a new order unless something holds its pods.
func GivesOrder(set *appsv1.StatefulSet) bool {
	former := api.LoadLedger(set)
	return Keeps(set) && former != nil && Next(set, Facts{}).Orders > former.Orders
}

// WithdrawsOrder reports whether a scale-up needs ordinals that are to be removed.
func WithdrawsOrder(set *appsv1.StatefulSet) bool {
	l := api.LoadLedger(set)
	return Keeps(set) && l != nil && l.Removing != nil && l.Removing.Start < statefulset.Span(set).End
}

// Next returns the ledger after a look at the set.
func Next(set *appsv1.StatefulSet, facts Facts) *api.Ledger {
	start, replicas := statefulset.Start(set), int(statefulset.Replicas(set))
	cleanup := operation.Of(set).Cleanup
	l := api.Ledger{Set: api.SetRef{Name: set.Name, UID: set.UID}, Start: start, Complete: true, Generation: set.Generation}
	if cleanup != nil {
		l.Orders = cleanup.Order // a number of a lost ledger must not return
	}
	missed := false // another count may have come and gone
	switch former := api.AnyLedger(set); {
	case former == nil || former.Start != start: // the pods below a higher start belong to another set
	case former.Set.UID != set.UID: // the set was created again, and its pods with it
		l.Count, missed = former.Count, true
	default:
		missed = set.Generation > former.Generation+1
		l.Count, l.Complete, l.Orders, l.Removing, l.Answered = former.Count, former.Complete, former.Orders, former.Removing, former.Answered
	}
	if r := l.Removing; r != nil && cleanup != nil && cleanup.Phase == api.Succeeded && cleanup.Order == r.Order {
		l.Count, l.Removing = staying(&l), nil
	}
	if missed {
		l.Complete, l.Removing = false, nil
	}
	shrink(&l, start+replicas, facts.Begun)
	switch stays := staying(&l); {
	case replicas >= l.Count:
		l.Count, l.Complete = replicas, true
	case missed:
	case replicas == stays:
		l.Complete = true
	case !l.Complete: // the others are expected back
	case l.Removing != nil && l.Removing.Start > start+stays: // another order is carried out first
	default:
		switch facts.judge(set) {
		case stopped:
			l.Complete = false
		case scaledDown:
			extendOrder(&l, start+replicas, start+l.Count)
		}
	}
	return &l
}

// shrink takes the ordinals below the end from the order, unless a cleanup pod has begun to remove them.
func shrink(l *api.Ledger, end int, begun []int) {
	if l.Removing == nil || l.Removing.Start >= end {
		return
	}
	kept := *l.Removing
	kept.Start = end
	for _, ordinal := range begun {
		if l.Removing.Start <= ordinal && ordinal < l.Removing.End {
			kept.Start = min(kept.Start, ordinal)
		}
	}
	if l.Removing = &kept; kept.Start >= kept.End {
		l.Removing = nil
	}
}

// OrderFrom returns the value of the annotation by which a user gives up the pods from the ordinal on. It names the set and its spec. A
// tool or an operator that writes a copy of it later, when the set has been scaled, gives up no other pods.
func OrderFrom(set *appsv1.StatefulSet, from int) string {
	return fmt.Sprintf("%d@%s/%d", from, set.UID, set.Generation)
}

// Asked returns the order of a user that the ledger has not answered yet.
func Asked(set *appsv1.StatefulSet) (written string, asked bool) {
	written, asked = set.Annotations[api.CleanupFromAnnotation]
	l := api.LoadLedger(set)
	return written, asked && (l == nil || l.Answered != text.Clip(written, longestOrder))
}

// longestOrder limits what the ledger stores of an order, in bytes. A valid one is shorter, and the ledger stays readable even if JSON
// needs six bytes for each.
const longestOrder = 70

// AddOrder adds the order of a user to the ledger: remove the pods from the ordinal on. They may be older than the ledger, so the order has
// no end. The error says why these pods are expected back. Both are an answer, and no order is answered twice.
func AddOrder(set *appsv1.StatefulSet, l *api.Ledger, written string) error {
	l.Answered = text.Clip(written, longestOrder)
	ordinal, _, _ := strings.Cut(written, "@")
	from, err := strconv.Atoi(ordinal)
	records, span := operation.Of(set), statefulset.Span(set)
	if records.Scale != nil {
		span.End = max(span.End, span.Start+int(records.Scale.Target))
	}
	switch {
	case err != nil || from < 0 || from >= api.NoEnd:
		return fmt.Errorf("%q is not an ordinal. Set it to the first ordinal to remove", text.Clip(written, 20))
	case written != OrderFrom(set, from):
		return fmt.Errorf("%q is not for the StatefulSet as it is now, which needs %s. Run kubectl drydock cleanup -n %s sts/%s --from %d",
			text.Clip(written, longestOrder), OrderFrom(set, from), set.Namespace, set.Name, from)
	case records.Sleeping() || records.Scaling() || records.Scale != nil && records.Scale.Paused:
		return errors.New("a sleep, a pause or a scaling keeps pods away for a while. Ask again when it has ended")
	case from < span.End:
		return fmt.Errorf("the StatefulSet has the ordinals from %d to before %d. Scale down first, or name an ordinal from %d", span.Start,
			span.End, span.End)
	case l.Removing != nil && l.Removing.Start < from:
		return fmt.Errorf("a cleanup from ordinal %d has not ended. Ask again when it has ended", l.Removing.Start)
	}
	extendOrder(l, from, api.NoEnd)
	return nil
}

// Missing returns the span of the pods that the set does not request now, and that are expected back. A stopped set misses none, unless
// its user wants a cleanup at zero.
func Missing(l *api.Ledger, set *appsv1.StatefulSet) (missing api.Span, some bool) {
	span := api.Span{Start: statefulset.Span(set).End, End: l.Start + staying(l)}
	return span, (statefulset.Replicas(set) > 0 || cleansAtZero(set)) && span.Start < span.End && !l.Complete
}

func cleansAtZero(set *appsv1.StatefulSet) bool {
	return set.Annotations[api.CleanupAtZeroAnnotation] == "true"
}

// staying returns how many pods stay if the order is carried out.
func staying(l *api.Ledger) int {
	if l.Removing == nil {
		return l.Count
	}
	return min(l.Count, l.Removing.Start-l.Start)
}

// extendOrder adds the ordinals of the span to the order.
func extendOrder(l *api.Ledger, from, end int) {
	if l.Removing != nil {
		end = max(end, l.Removing.End)
	}
	l.Orders++
	l.Removing = &api.Removal{Span: api.Span{Start: from, End: end}, Order: l.Orders}
}

// verdict says why a set requests fewer pods than it has.
type verdict int

const (
	undecided  verdict = iota // another operation has to act first
	stopped                   // the others are expected back
	scaledDown                // for good
)

// judge returns the verdict on a set that one write has scaled down. Zero replicas are a stop, unless the set's user says otherwise. An
// operator may stop and start pods one by one, so that a lower count proves nothing. A Scaler scales down for good when its hooks have run.
func (f Facts) judge(set *appsv1.StatefulSet) verdict {
	records, replicas := operation.Of(set), statefulset.Replicas(set)
	switch s := records.Scale; {
	case records.Resizing():
		return undecided
	case s != nil && replicas > 0 && (records.Sleep.Active() || api.LoadStop(set) != nil): // the Scaler's stop has to end first
		return undecided
	case f.Held, records.Sleeping(), records.ScaleErr != nil, s != nil && s.Paused, replicas == 0 && !cleansAtZero(set):
		return stopped
	case s == nil && IsMade(set):
		return stopped
	case s == nil:
		return scaledDown
	case s.Target != replicas || s.Phase != api.Succeeded && !records.AwaitsCleanup(): // it may restore the count
		return undecided
	case s.Previous <= s.Target: // it has taken over the count of another client, without its hooks
		return stopped
	}
	return scaledDown
}
