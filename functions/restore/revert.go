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

// revert gives the operation up. Held pods are released, and each member stays on its present volumes.
func revert(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := operation.Revert(record, in.Now, in.Settings.SwitchTimeout, why, message)
	actions := append(withdrawOrder(in, record), operation.Store(in.Set, next).Actions()...)
	return plan.Do(why, append(actions, operation.NoteOf(in.Set, next, true))...)
}

// handleReverting releases every member with all of its claims bound: to the old volumes, or to the new ones where a swap was under way.
func handleReverting(in Input, record *api.Resize) plan.Plan {
	w := &work{Input: in, before: record, record: record.Clone(), reason: api.RollingBack}
	for i := range w.record.Members {
		switch member := &w.record.Members[i]; member.Phase {
		case api.MemberMoved:
		case api.MemberKept:
			if slices.ContainsFunc(member.Claims, w.frozenByStalePlan) {
				w.undoMember(member)
			}
		case api.MemberStarting:
			switch {
			case w.missesClaim(member):
				w.undoMember(member)
			case !w.endMoversOfDeletedClaim(member):
				w.releaseMember(member, api.MemberMoved)
			}
		default:
			w.undoMember(member)
		}
	}
	switch {
	case !w.idle() || !operation.Store(in.Set, w.record).Empty():
		return w.plan()
	case !needsOldTemplates(in, record):
		return concludeRevert(in, record)
	}
	if why := whyTemplatesStay(in, record); why != "" {
		next := record.Clone()
		next.Before, next.FieldsBefore = nil, nil
		next.Message += "; the set keeps its new templates: " + why
		return plan.Do(record.Reason, append(withdrawOrder(in, record), operation.Store(in.Set, next).Actions()...)...)
	}
	return recreate(in, record, record.OldShape())
}

// frozenByStalePlan reports whether a slow process has deleted a claim under a plan from before the operation was given up. The claim
// then returns to its old volume. A plan that is even later finds the claim no longer linked.
func (in Input) frozenByStalePlan(move api.Move) bool {
	claim := in.Claim(move.Claim)
	return claim != nil && claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.SwitchFinalizer)
}

// whyTemplatesStay returns why the set cannot get its old templates back. It returns empty if the set can, or if time is left to try.
func whyTemplatesStay(in Input, record *api.Resize) string {
	late := operation.Overdue(record, in.Now)
	finalizer := foreignFinalizer(in.Set)
	switch {
	case in.CreationRefused != "":
		return "the API server would not create it with its old templates: " + in.CreationRefused
	case late && in.WriteRefused != "":
		return "the API server refuses a step: " + in.WriteRefused
	case late && finalizer != "":
		return "finalizer " + finalizer + " would block its deletion"
	case in.TwoRevisions():
		return "a partition keeps pods of an older revision"
	case slices.ContainsFunc(record.Fields, func(s api.Field) bool { return s.Name == api.FieldTemplate }):
		return "a template that was added or removed does not fit the pods that have started since"
	}
	return ""
}

// missesClaim reports whether a claim of the member is gone, is unbound while the pod is held, or was deleted and only pins keep it.
func (w *work) missesClaim(member *api.Member) bool {
	return w.heldPod(member) != nil && !w.claimsBound(member) ||
		slices.ContainsFunc(member.Claims, func(m api.Move) bool {
			return w.Claim(m.Claim) == nil || newSwap(w.Input, w.record, member, &m).keptOnlyByPins()
		})
}

// undoMember settles the claims of a member and then releases it.
func (w *work) undoMember(member *api.Member) {
	phase, settled, together := api.MemberKept, true, false
	w.withdrawGrowth(member)
	w.noteForeignPod(member)
	for i := range member.Claims {
		s := newSwap(w.Input, w.record, member, &member.Claims[i])
		s.givingUp = true
		together = together || s.rollbackPartial
		step := s.next()
		if s.nothingToUndo() {
			continue
		}
		w.do(api.RollingBack, step.actions...)
		switch {
		case step.settledOn == nil:
			settled = false
			if step.waiting != "" {
				w.waitFor(true, "%s", step.waiting)
			}
		case step.settledOn == s.new:
			phase = api.MemberMoved
		}
	}
	switch {
	case settled && together && w.waitsForOthers(member):
		w.waitFor(true, "pod %s-%d waits until every member has its old volumes", w.Name, member.Ordinal)
	case settled:
		w.releaseMember(member, w.finalPhase(member, phase))
	case operation.Overdue(w.record, w.Now):
		if member.HeldAt != nil {
			w.reportStuckMember(member)
		}
	}
}

// nothingToUndo reports whether the claim needs no undoing: its swap has not begun, or another process removed it. In the middle of a
// swap, a volume is reserved for the claim's name.
func (s swap) nothingToUndo() bool {
	switch {
	case s.reservedVolume() != nil || s.mustFollowRollback() || s.keptOnlyByPins():
		return false
	case s.claim == nil && s.Set == nil: // another process deleted both; the data is on the retained volume
		return true
	case s.claim == nil: // the volume was deleted with the claim, by its reclaim policy
		return s.old == nil && !s.newIsComplete && !statefulset.Held(s.MemberPod(s.member.Ordinal))
	case s.claim.DeletionTimestamp != nil: // deleted by another process, with the set, or under a running pod
		withSet := s.Set == nil || s.Set.DeletionTimestamp != nil
		return !slices.Contains(s.claim.Finalizers, api.SwitchFinalizer) && (withSet || !statefulset.Held(s.MemberPod(s.member.Ordinal)))
	case s.old != nil && s.claim.Spec.VolumeName == s.old.Name:
		return true
	}
	pod := s.MemberPod(s.member.Ordinal)
	elsewhere := s.claim.Spec.VolumeName != "" && (s.new == nil || s.claim.Spec.VolumeName != s.new.Name)
	return elsewhere && !statefulset.Held(pod) // the claim is given up, or its volume was already released
}

// releaseMember releases the member's pod. Once the pod is released, the member enters the phase.
func (w *work) releaseMember(member *api.Member, phase api.MemberPhase) {
	pod := w.MemberPod(member.Ordinal)
	heldHere := blocksStart(pod) && api.HasLink(pod, w.record.Operation, api.RoleHeld)
	switch {
	case heldHere && w.mustStayHeld(pod):
		w.waitFor(false, "pod %s was deleted by force, and its containers have not ended", pod.Name)
		return
	case heldHere:
		w.do(api.RollingBack, release(pod)...)
		return
	}
	member.Deadline = nil
	member.Phase = phase
}

// needsOldTemplates reports whether the set must get its old templates back, because it was created again and no member was moved. The
// claims of a moved member fit only the new templates.
func needsOldTemplates(in Input, record *api.Resize) bool {
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			return false
		}
	}
	return record.ReplaceSet && differsFrom(in.Set, record.OldShape())
}

// concludeRevert cleans up and ends the operation.
func concludeRevert(in Input, record *api.Resize) plan.Plan {
	remark, p := cleanUp(in, record)
	if remark == "" && p.Kind != "" {
		return p
	}
	next := operation.ConcludeResize(record, api.Failed, in.Now)
	if moved := movedSummary(record); moved != "" {
		next.Message += moved
	}
	next.Message += remark
	return conclude(in, next, events.OperationFailed)
}

// movedSummary returns how many members were moved, if only some were, and how to move the others.
func movedSummary(record *api.Resize) string {
	moved := 0
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			moved++
		}
	}
	if moved == 0 {
		return ""
	}
	if record.GrowsWhileStopped() {
		return fmt.Sprintf("; the volumes of %d of %d members have grown: %s grows the others", moved, len(record.Members),
			api.RetryAnnotation)
	}
	return fmt.Sprintf("; %d of %d members are on their new volumes: %s moves the others, kubectl drydock rollback moves these back",
		moved, len(record.Members), api.RetryAnnotation)
}

// cleanUp removes the objects of the operation. After the deadline it stops waiting and returns a remark for the message. The journal
// then stays, so that the sweep finds the rest.
func cleanUp(in Input, record *api.Resize) (remark string, p plan.Plan) {
	p, busy := tidy(in, record.Operation, endedClaims(in, record))
	switch {
	case !busy:
		return "", plan.Plan{}
	case p.Kind == plan.KindWait && waitExpired(in, record):
		return "; the remaining objects are removed later: " + p.Detail, p
	}
	return "", p
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

// lastWait is how long a wait must last after the deadline before it counts. It is shorter than the executor's patience.
const lastWait = 5 * time.Second

// waitExpired reports whether a wait has passed its deadline, and not only because the functions were down.
func waitExpired(in Input, record *api.Resize) bool {
	return operation.Overdue(record, in.Now) && in.Waited >= lastWait
}
