package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// moving plans the next step of each member. Held members come before waiting ones, since they are down. It returns the pods, too, whose
// member check the plan lacks.
func moving(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if why, message := hopeless(in, record); why != "" {
		return revert(in, record, why, message), nil
	}
	if orders := withdraw(in, record); len(orders) > 0 && !in.replacing(record) {
		return plan.Do(api.SwitchRunning, orders...), nil
	}
	if releases, _ := staleHolds(in, record); len(releases) > 0 { // users are told at the end
		return plan.Do(api.CleaningUp, releases...), nil
	}
	w := &work{Input: in, before: record, record: record.Clone()}
	for i := range w.record.Members {
		member := &w.record.Members[i]
		switch member.Phase {
		case api.MemberStopping:
			w.stopping(member)
		case api.MemberFinalPass:
			w.finalPass(member)
		case api.MemberSwapping:
			w.swapping(member)
		case api.MemberStarting:
			w.starting(member)
		}
	}
	if w.idle() {
		w.gate()
	}
	if orders := withdraw(in, record); len(orders) > 0 && w.given.Kind == "" { // it is not to be carried out now
		w.do(api.SwitchRunning, orders...)
	}
	return w.plan(), w.ask
}

// hopeless says why the operation has to be given up, or nothing.
func hopeless(in Input, record *api.Resize) (api.Reason, string) {
	_, abort := in.Set.Annotations[api.AbortAnnotation]
	overdue := operation.Overdue(record, in.Now)
	switch {
	case abort:
		return api.Aborted, "aborted; members that have been moved stay on their new volumes, the others on their old ones"
	case in.Refused != "":
		return api.RecreateRefused, fmt.Sprintf("the API server would not create StatefulSet %s again: %s. Mend that, then %s",
			in.Name, in.Refused, operation.AskAgain(record))
	case in.Rejected != "" && overdue:
		return api.Rejected, fmt.Sprintf("the API server refuses a step: %s. Mend that, then %s", in.Rejected, operation.AskAgain(record))
	case in.Failing != "":
		return api.DeadlineExceeded, fmt.Sprintf("the API server fails to carry out a step: %s. Mend that, then %s", in.Failing,
			operation.AskAgain(record))
	case lostClaim(in, record) != "":
		return api.ClaimLost, fmt.Sprintf("claim %s was deleted or replaced while its pod was stopped. Its volume is kept, and restore creates "+
			"the claim on it again before the pod starts. Then %s", lostClaim(in, record), operation.AskAgain(record))
	case leavingClaim(in, record) != "":
		return api.ClaimLost, fmt.Sprintf("claim %s is being deleted, so its pod would start on an empty volume after a stop. The pod runs on: "+
			"copy its data, then %s", leavingClaim(in, record), operation.AskAgain(record))
	case overdue:
		return api.DeadlineExceeded, operation.TookTooLong(record, in.Settings.CopyTimeout)
	}
	return "", ""
}

// lostClaim returns a claim that was deleted or replaced although its member has been told to stop; empty if there is none. The member
// must not be released without it: the StatefulSet controller would make an empty one.
func lostClaim(in Input, record *api.Resize) string {
	for _, member := range record.Members {
		if member.Phase != api.MemberStopping && member.Phase != api.MemberFinalPass {
			continue
		}
		for _, move := range member.Claims {
			if claim := in.Claim(move.Claim); claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil {
				return move.Claim
			}
		}
	}
	return ""
}

// leavingClaim returns a claim that another process has deleted, that the operation does not move, and that only its running pod keeps;
// empty if there is none. The pod is not stopped: the StatefulSet controller would create an empty claim for its replacement.
func leavingClaim(in Input, record *api.Resize) string {
	for _, member := range record.Members {
		pod := in.MemberPod(member.Ordinal)
		if pod == nil || pod.DeletionTimestamp != nil || member.Phase == api.MemberStarting || member.Phase == api.MemberMoved {
			continue
		}
		for _, name := range in.LeavingClaims(member.Ordinal) {
			if record.Move(name) == nil {
				return name
			}
		}
	}
	return ""
}

// work collects the actions for all members from one reading of the cluster.
type work struct {
	Input
	before, record *api.Resize
	tries          []plan.Action // dry runs, before the record is stored
	actions        []plan.Action // after the record was stored
	notes          []plan.Action
	announce       string
	waiting        string
	soon           bool
	told           bool          // why a member stays held
	ask            []*corev1.Pod // by the member check
	given          plan.Plan     // replaces the collected plan, as for the replacement of the set
	reason         api.Reason
}

// idle reports whether no member has anything to do or to wait for.
func (w *work) idle() bool {
	return len(w.actions) == 0 && w.waiting == "" && w.announce == "" && w.given.Kind == ""
}

func (w *work) do(reason api.Reason, actions ...plan.Action) {
	w.reason, w.actions = reason, append(w.actions, actions...)
}

// waitFor notes why a member waits. With soon, a controller of Kubernetes ends the wait within moments.
func (w *work) waitFor(soon bool, format string, args ...any) {
	w.waiting, w.soon = fmt.Sprintf(format, args...), w.soon || soon
}

// enter moves a member on to a phase that is given up after the time.
func (w *work) enter(member *api.Member, phase api.MemberPhase) {
	member.Phase, member.Deadline = phase, w.deadline(member, phase)
}

// say puts the reason and the message into the record, and makes an Event of them. The Event of each stop needs words of its own: an Event
// with the same words as an earlier one is not made.
func (w *work) say(warning bool, reason api.Reason, format string, args ...any) {
	w.record.Reason, w.record.Message = reason, fmt.Sprintf(format, args...)
	w.notes = append(w.notes, operation.NoteOf(w.Set, w.record, warning))
}

// note makes an Event on the set.
func (w *work) note(warning bool, reason api.Reason, format string, args ...any) {
	w.notes = append(w.notes, plan.Record(w.Set.Namespace, w.Set.Name, plan.Note{Warning: warning, Reason: reason,
		Message: fmt.Sprintf(format, args...), UID: w.Set.UID, Operation: w.record.Operation}))
}

// plan makes one plan of it: the record first, so that every act is written down before it is done.
func (w *work) plan() plan.Plan {
	if w.given.Kind != "" {
		return w.given
	}
	if w.before.Phase == api.Moving && w.idle() && allMoved(w.record) {
		return finish(w.Input, w.record)
	}
	store := operation.Store(w.Set, w.record)
	actions := slices.Concat(w.tries, store.Actions(), w.actions, w.notes)
	if len(actions) > 0 {
		p := plan.Do(w.reason, actions...)
		if w.announce != "" {
			p = p.Then(w.announce, w.record.Operation)
		}
		return p
	}
	p := plan.Wait(api.SwitchRunning, "%s", w.waiting)
	p.Soon = w.soon
	return p
}

// allMoved reports whether every member has its new volumes.
func allMoved(record *api.Resize) bool {
	return !slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != api.MemberMoved })
}

// finish begins to clear up.
func finish(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Finishing, in.Now, in.Settings.SwitchTimeout)
	next.Reason, next.Message = api.ClaimsSwitched, "every member runs on its new volumes"
	if len(record.Members) == 0 {
		next.Message = "the set is created again, and its pods run on"
	}
	return plan.Do(api.ClaimsSwitched, operation.Store(in.Set, next).Actions()...)
}

// finishing removes the objects of the operation and ends it.
func finishing(in Input, record *api.Resize) plan.Plan {
	later, p := clearUp(in, record)
	if later == "" && p.Kind != "" {
		return p
	}
	next := operation.End(record, api.Succeeded, in.Now)
	next.Reason, next.Message = api.ResizeCompleted, operation.Summary(record, in.Settings.Retention)+later
	return conclude(in, next, events.RestoreCompleted)
}
