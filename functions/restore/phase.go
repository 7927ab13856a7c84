package restore

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// enterPhase moves a member to the phase and sets the phase's deadline.
func (w *work) enterPhase(member *api.Member, phase api.MemberPhase) {
	member.Phase, member.Deadline = phase, w.phaseDeadline(member, phase)
}

// phaseDeadline returns when the phase of a member is given up, or nil.
func (w *work) phaseDeadline(member *api.Member, phase api.MemberPhase) *metav1.Time {
	var after time.Duration
	limit, _ := api.MaxStop(w.Set, w.record.Strategy)
	limit = min(limit, 10*365*24*time.Hour) // a sum with a longer one could overflow
	switch phase {
	case api.MemberStopping:
		after = w.Settings.QuiesceTimeout + time.Duration(1+w.stopsToAwait(member))*statefulset.GracePeriod(w.Set)
		if w.record.Strategy == api.StrategyRolling { // the others wait for this stop
			after = limit + statefulset.GracePeriod(w.Set)
		}
	case api.MemberFinalPass:
		// No member is down beside an unwanted one of a rolling resize. Members of a set at zero may wait for the movers of others.
		alone := w.record.Strategy == api.StrategyRolling && member.Locked && !w.Wants(member.Ordinal)
		if after = 2 * limit; limit == 0 || alone || !w.WantsAny(w.record) {
			return w.record.Deadline
		}
	case api.MemberSwapping, api.MemberGrowing:
		after = w.Settings.SwapTimeout
	case api.MemberStarting:
		// With OrderedReady, the controller starts the next pod when the one before is available (kubernetes pkg/controller/statefulset,
		// isRunningAndAvailable).
		available := min(time.Duration(w.Set.Spec.MinReadySeconds)*time.Second, statefulset.LongestGrace)
		after = (w.Settings.ReadyTimeout + available) * time.Duration(1+w.membersStartingBefore(member))
	default:
		return nil
	}
	return operation.Moment(w.Now.Add(after))
}

// stopsToAwait returns how many other members end, one after the other, before this member's phase can end. In a rollback, a stopped
// member waits until all have stopped.
func (w *work) stopsToAwait(member *api.Member) int {
	count := 0
	for _, m := range w.record.Members {
		before := m.Ordinal > member.Ordinal || w.record.IsRollback() && m.Ordinal < member.Ordinal
		if statefulset.Ordered(w.Set) && before && m.Phase != api.MemberMoved {
			count++
		}
	}
	return count
}

// membersStartingBefore returns how many other members start one after the other before this one does.
func (w *work) membersStartingBefore(member *api.Member) int {
	count := 0
	for _, m := range w.record.Members {
		if statefulset.Ordered(w.Set) && m.Ordinal < member.Ordinal && (m.Phase == api.MemberSwapping || m.Phase == api.MemberStarting) {
			count++
		}
	}
	return count
}

// pastDeadline reports whether the member's phase has passed its deadline.
func (w *work) pastDeadline(member *api.Member) bool {
	return operation.Past(member.Deadline, w.Now)
}
