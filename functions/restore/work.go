package restore

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// work collects the steps of all members.
type work struct {
	Input
	moving.Work
	dryRuns       []plan.Action
	stuckReported bool          // the record says why a member stays held
	podsToAsk     []*corev1.Pod // their answers to the member check are missing
	override      plan.Plan     // replaces the collected plan, for example to replace the set
}

// idle reports whether no member has anything to do or to wait for.
func (w *work) idle() bool { return w.Idle() && w.override.Kind == "" }

// rank orders the actions of a plan. Locks come first: if the API server rejects one, no pod was stopped for it. A rollback creates claims
// last: the quota then no longer counts the claims that they replace.
func (w *work) rank(a plan.Action) int {
	switch {
	case a.Verb == plan.VerbCreate && a.Resource == plan.Pods:
		return 0
	case a.Verb == plan.VerbCreate && a.Resource == plan.Claims && w.Record.IsRollback():
		return 2
	}
	return 1
}

// plan returns one plan for all members.
func (w *work) plan() plan.Plan {
	if w.override.Kind != "" {
		return w.override
	}
	if w.Before.Phase == api.Moving && w.idle() && allMoved(w.Record) {
		return enterFinishing(w.Input, w.Record)
	}
	slices.SortStableFunc(w.Actions(), func(a, b plan.Action) int { return cmp.Compare(w.rank(a), w.rank(b)) })
	return w.Plan(w.Set, api.SwapRunning, w.dryRuns...)
}

// enterPhase moves a member to the phase and sets the phase's deadline.
func (w *work) enterPhase(member *api.Member, phase api.MemberPhase) {
	member.Phase, member.Deadline = phase, w.phaseDeadline(member, phase)
}

// phaseDeadline returns when the phase of a member is given up, or nil.
func (w *work) phaseDeadline(member *api.Member, phase api.MemberPhase) *metav1.Time {
	var after time.Duration
	limit, _ := api.MaxStop(w.Set, w.Record.Strategy)
	limit = min(limit, 10*365*24*time.Hour) // a sum with a longer one could overflow
	switch phase {
	case api.MemberStopping:
		after = w.Settings.QuiesceTimeout + time.Duration(1+w.stopsToAwait(member))*statefulset.GracePeriod(w.Set)
		if w.Record.Strategy == api.StrategyRolling { // the others wait for this stop
			after = limit + statefulset.GracePeriod(w.Set)
		}
	case api.MemberFinalPass:
		// No member is down beside an unwanted one of a rolling resize. Members of a set at zero may wait for the movers of others.
		alone := w.Record.Strategy == api.StrategyRolling && member.Locked && !w.Wants(member.Ordinal)
		if after = 2 * limit; limit == 0 || alone || !w.WantsAny(w.Record) {
			return w.Record.Deadline
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
	for _, m := range w.Record.Members {
		before := m.Ordinal > member.Ordinal || w.Record.IsRollback() && m.Ordinal < member.Ordinal
		if statefulset.Ordered(w.Set) && before && m.Phase != api.MemberMoved {
			count++
		}
	}
	return count
}

// membersStartingBefore returns how many other members start one after the other before this one does.
func (w *work) membersStartingBefore(member *api.Member) int {
	count := 0
	for _, m := range w.Record.Members {
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

// stopReadiness returns why members may stop, for the message.
func stopReadiness(record *api.Resize) string {
	if record.GrowsWhileStopped() {
		return "the claims can grow when their pods are stopped"
	}
	uncopied := 0
	for _, m := range record.Members {
		if record.Copies() && m.Phase == api.MemberWaiting && m.Pod == "" { // no mover has run beside its pod
			uncopied++
		}
	}
	if uncopied > 0 {
		return text.Number(uncopied, "member is copied only while it is stopped", "members are copied only while they are stopped")
	}
	return "the copies have converged"
}

// prepared returns what happens to a member before it stops, for the message.
func prepared(record *api.Resize) string {
	if record.GrowsWhileStopped() {
		return "prepared"
	}
	return "copied"
}

// formerVolumes returns how a message names the volumes of a member whose stop is cancelled.
func formerVolumes(record *api.Resize) string {
	switch {
	case record.GrowsWhileStopped():
		return "own"
	case record.IsRollback():
		return "present"
	}
	return "old"
}

// movedMessage returns the message after the last member.
func movedMessage(record *api.Resize) string {
	switch {
	case record.GrowsWhileStopped():
		return "the volumes of every member have grown"
	case len(record.Members) == 0:
		return "the set is created again, and its pods keep running"
	}
	return "every member runs on its new volumes"
}

// revert gives the operation up. Held pods are released, and each member stays on its present volumes.
func revert(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	return moving.Revert(in.Input, record, why, message, withdrawOrder(in, record)...)
}

// enterFinishing begins the removal of the operation's objects.
func enterFinishing(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Finishing, in.Now, in.Settings.SwapTimeout)
	next.Reason, next.Message = api.ClaimsSwapped, movedMessage(next)
	return plan.Do(api.ClaimsSwapped, operation.Store(in.Set, next).Actions()...)
}

// allMoved reports whether every member has its new volumes.
func allMoved(record *api.Resize) bool {
	return !slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != api.MemberMoved })
}

// conclude stores the end of the operation, then makes an Event and announces the end to the functions. After a success, it also removes
// the dead letters on the set, which are no longer needed.
func conclude(in Input, next *api.Resize, announce string) plan.Plan {
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	if next.Phase == api.Succeeded {
		store.Unannotate(api.DeadLettersAnnotation)
	}
	actions := append(store.Actions(), operation.NoteOf(in.Set, next, next.Phase == api.Failed))
	return plan.Do(next.Reason, actions...).Then(announce, next.Operation)
}
