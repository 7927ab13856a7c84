package restore

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// revert gives the operation up: held pods are released, and each member stays on its present volumes.
func revert(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := operation.Revert(record, in.Now, in.Settings.SwitchTimeout, why, message)
	actions := append(withdraw(in, record), operation.Store(in.Set, next).Actions()...)
	return plan.Do(why, append(actions, operation.NoteOf(in.Set, next, true))...)
}

// reverting releases every member, each with all of its claims bound: to the old volumes, or to the new ones where a claim was on its way
// there.
func reverting(in Input, record *api.Resize) plan.Plan {
	w := &work{Input: in, before: record, record: record.Clone(), reason: api.RollingBackNow}
	for i := range w.record.Members {
		switch member := &w.record.Members[i]; member.Phase {
		case api.MemberMoved:
		case api.MemberKept:
			if slices.ContainsFunc(member.Claims, w.takenSince) {
				w.undo(member)
			}
		case api.MemberStarting:
			switch {
			case w.missesClaim(member):
				w.undo(member)
			case !w.letsClaimGo(member):
				w.letGo(member, api.MemberMoved)
			}
		default:
			w.undo(member)
		}
	}
	switch {
	case !w.idle() || !operation.Store(in.Set, w.record).Empty():
		return w.plan()
	case !templatesBack(in, record):
		return reverted(in, record)
	}
	if why := keepsTemplates(in, record); why != "" {
		next := record.Clone()
		next.Before, next.FieldsBefore = nil, nil
		next.Message += "; the set keeps its new templates: " + why
		return plan.Do(record.Reason, append(withdraw(in, record), operation.Store(in.Set, next).Actions()...)...)
	}
	return recreate(in, record, record.Former())
}

// takenSince reports whether a claim is being deleted by a plan of another process that was made before the operation was given up, and that was
// slow: the claim goes back to its old volume. A plan that comes later still finds that the claim is not linked any more.
func (in Input) takenSince(move api.Move) bool {
	claim := in.Claim(move.Claim)
	return claim != nil && claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.SwitchFinalizer)
}

// keepsTemplates says why the set cannot get its old templates back; empty if it can, or there is time.
func keepsTemplates(in Input, record *api.Resize) string {
	late := operation.Overdue(record, in.Now)
	finalizer := foreignFinalizer(in.Set)
	switch {
	case in.Refused != "":
		return "the API server would not create it with its old ones: " + in.Refused
	case late && in.Rejected != "":
		return "the API server refuses a step: " + in.Rejected
	case late && finalizer != "":
		return "finalizer " + finalizer + " would hold it when it is deleted to be created again"
	case in.TwoRevisions():
		return "a partition keeps pods of an older revision"
	case slices.ContainsFunc(record.Fields, func(s api.Field) bool { return s.Name == api.FieldTemplate }):
		return "a template that was added or removed does not fit the pods that have started since"
	}
	return ""
}

// missesClaim reports whether a claim of the member is gone, is not bound while its pod is held, or is deleted and only kept by a pin.
func (w *work) missesClaim(member *api.Member) bool {
	return w.heldPod(member) != nil && !w.bound(member) ||
		slices.ContainsFunc(member.Claims, func(m api.Move) bool {
			return w.Claim(m.Claim) == nil || swapOf(w.Input, w.record, member, &m).keptByPin()
		})
}

// undo brings the claims of a member to rest, and releases it.
func (w *work) undo(member *api.Member) {
	phase, rests, together := api.MemberKept, true, false
	w.askNoMore(member)
	w.noteIntruder(member)
	for i := range member.Claims {
		s := swapOf(w.Input, w.record, member, &member.Claims[i])
		s.ends = true
		together = together || s.half
		step := s.next()
		if s.untouched() {
			continue
		}
		w.do(api.RollingBackNow, step.actions...)
		switch {
		case step.on == nil:
			rests = false
			if step.waiting != "" {
				w.waitFor(true, "%s", step.waiting)
			}
		case step.on == s.new:
			phase = api.MemberMoved
		}
	}
	switch {
	case rests && together && w.heldTogether(member):
		w.waitFor(true, "pod %s-%d waits until every member has its old volumes", w.Name, member.Ordinal)
	case rests:
		w.letGo(member, w.finalPhase(member, phase))
	case operation.Overdue(w.record, w.Now):
		w.stuckReverting(member)
	}
}

// untouched reports whether nothing has to be undone for the claim: it was not begun, or its end was the work of others. Of a claim that
// is in the middle, a volume is reserved for its name.
func (s swap) untouched() bool {
	switch {
	case s.reserved() != nil || s.goesAlong() || s.keptByPin():
		return false
	case s.claim == nil && s.Set == nil: // who deleted the set, too, has the data on the retained volume
		return true
	case s.claim == nil: // it took its volume along, as its reclaim policy says
		return s.old == nil && !s.whole && !statefulset.Held(s.MemberPod(s.member.Ordinal))
	case s.claim.DeletionTimestamp != nil: // by another process, with the set, or under a running pod
		with := s.Set == nil || s.Set.DeletionTimestamp != nil
		return !slices.Contains(s.claim.Finalizers, api.SwitchFinalizer) && (with || !statefulset.Held(s.MemberPod(s.member.Ordinal)))
	case s.old != nil && s.claim.Spec.VolumeName == s.old.Name:
		return true
	}
	pod := s.MemberPod(s.member.Ordinal)
	elsewhere := s.claim.Spec.VolumeName != "" && (s.new == nil || s.claim.Spec.VolumeName != s.new.Name)
	return elsewhere && !statefulset.Held(pod) // it is given up, or on a volume that was released already
}

func (w *work) stuckReverting(member *api.Member) {
	if member.Held != nil {
		w.stuck(member)
	}
}

// letGo releases the member's pod. When it is released, the member enters the phase.
func (w *work) letGo(member *api.Member, phase api.MemberPhase) {
	pod := w.MemberPod(member.Ordinal)
	ours := keeps(pod) && api.Linked(pod, w.record.Operation, api.RoleHeld)
	switch {
	case ours && w.dying(pod):
		w.waitFor(false, "pod %s was deleted by force, and its containers have not ended", pod.Name)
		return
	case ours:
		w.do(api.RollingBackNow, release(pod)...)
		return
	}
	member.Deadline = nil
	member.Phase = phase
}

// templatesBack reports whether the set has to get its old templates back: it was created again, and no member was moved. The claims of a
// moved member fit the new templates only.
func templatesBack(in Input, record *api.Resize) bool {
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			return false
		}
	}
	return record.ReplaceSet && differ(in.Set, record.Former())
}

// reverted clears up and ends the operation.
func reverted(in Input, record *api.Resize) plan.Plan {
	later, p := clearUp(in, record)
	if later == "" && p.Kind != "" {
		return p
	}
	next := operation.End(record, api.Failed, in.Now)
	if moved := movedWords(record); moved != "" {
		next.Message += moved
	}
	next.Message += later
	return conclude(in, next, events.OperationFailed)
}

// movedWords says which part of the members has been moved, if only a part has.
func movedWords(record *api.Resize) string {
	moved := 0
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			moved++
		}
	}
	if moved == 0 {
		return ""
	}
	if record.GrowsHeld() {
		return fmt.Sprintf("; the volumes of %d of %d members have grown: %s grows the others", moved, len(record.Members), api.RetryAnnotation)
	}
	return fmt.Sprintf("; %d of %d members are on their new volumes: %s moves the others, kubectl drydock rollback moves these back",
		moved, len(record.Members), api.RetryAnnotation)
}

// clearUp removes the objects of the operation. After the deadline it stops waiting, and returns words for the message instead. The journal
// stays then, so that the sweep finds the rest.
func clearUp(in Input, record *api.Resize) (later string, p plan.Plan) {
	p, busy := tidy(in, record.Operation, partsOf(in, record))
	switch {
	case !busy:
		return "", plan.Plan{}
	case p.Kind == plan.KindWait && exhausted(in, record):
		return "; the rest is removed later: " + p.Detail, p
	}
	return "", p
}

// conclude stores the end, then makes an Event and announces it to the functions. After a success, the dead letters on the set are
// not needed any more.
func conclude(in Input, next *api.Resize, announce string) plan.Plan {
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	if next.Phase == api.Succeeded {
		store.Unannotate(api.DeadLettersAnnotation)
	}
	actions := append(store.Actions(), operation.NoteOf(in.Set, next, next.Phase == api.Failed))
	return plan.Do(next.Reason, actions...).Then(announce, next.Operation)
}

// lastWait is how long a wait is watched after the deadline; below the executor's patience.
const lastWait = 5 * time.Second

// exhausted reports whether a wait is over: past the deadline, and not only because the functions were away.
func exhausted(in Input, record *api.Resize) bool {
	return operation.Overdue(record, in.Now) && in.Waited >= lastWait
}
