package restore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// undoing gives the members of an operation that was given up back to the StatefulSet.
type undoing struct{ *work }

func (w *work) undoing() undoing { return undoing{w} }

// handleReverting releases every member with all of its claims bound: to the old volumes, or to the new ones where a swap was under way.
func handleReverting(in Input, record *api.Resize) plan.Plan {
	w := &work{Input: in, Work: moving.Begin(record)}
	w.Reason = api.RollingBack
	for i := range w.Record.Members {
		switch member := &w.Record.Members[i]; member.Phase {
		case api.MemberMoved:
		case api.MemberKept:
			if slices.ContainsFunc(member.Claims, w.frozenByStalePlan) {
				w.undoing().undoMember(member)
			}
		case api.MemberStarting:
			switch {
			case w.undoing().missesClaim(member):
				w.undoing().undoMember(member)
			case !w.endMoversOfDeletedClaim(member):
				w.undoing().releaseMember(member, api.MemberMoved)
			}
		default:
			w.undoing().undoMember(member)
		}
	}
	switch {
	case !w.idle() || !operation.Store(in.Set, w.Record).Empty():
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
	return claim != nil && claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.FreezeFinalizer)
}

// whyTemplatesStay returns why the set cannot get its old templates back. It returns empty if the set can, or if time is left to try.
func whyTemplatesStay(in Input, record *api.Resize) string {
	late := operation.Overdue(record, in.Now)
	finalizer := foreignFinalizer(in.Set)
	switch {
	case in.CreationRefused != "":
		return "the API server would not create it with its old templates: " + in.CreationRefused
	case late && in.Rejected != "":
		return "the API server refuses a step: " + in.Rejected
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
func (u undoing) missesClaim(member *api.Member) bool {
	return u.heldPod(member) != nil && !u.claimsBound(member) ||
		slices.ContainsFunc(member.Claims, func(m api.Move) bool {
			return u.Claim(m.Claim) == nil || newSwap(u.Input, u.Record, member, &m).keptOnlyByPins()
		})
}

// undoMember settles the claims of a member and then releases it.
func (u undoing) undoMember(member *api.Member) {
	phase, settled, together := api.MemberKept, true, false
	u.swapping().lowerRequests(member)
	u.swapping().noteForeignPod(member)
	for i := range member.Claims {
		s := newSwap(u.Input, u.Record, member, &member.Claims[i])
		s.givingUp = true
		together = together || s.rollbackPartial
		step := s.next()
		if s.nothingToUndo() {
			continue
		}
		u.Do(api.RollingBack, step.actions...)
		switch {
		case step.settledOn == nil:
			settled = false
			if step.waiting != "" {
				u.WaitFor(true, "%s", step.waiting)
			}
		case step.settledOn == s.new:
			phase = api.MemberMoved
		}
	}
	switch {
	case settled && together && u.swapping().waitsForOthers(member):
		u.WaitFor(true, "pod %s-%d waits until every member has its old volumes", u.Name, member.Ordinal)
	case settled:
		u.releaseMember(member, u.swapping().finalPhase(member, phase))
	case operation.Overdue(u.Record, u.Now):
		if member.HeldAt != nil {
			u.swapping().reportStuckMember(member)
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
		return !slices.Contains(s.claim.Finalizers, api.FreezeFinalizer) && (withSet || !statefulset.Held(s.MemberPod(s.member.Ordinal)))
	case s.old != nil && s.claim.Spec.VolumeName == s.old.Name:
		return true
	}
	pod := s.MemberPod(s.member.Ordinal)
	elsewhere := s.claim.Spec.VolumeName != "" && (s.new == nil || s.claim.Spec.VolumeName != s.new.Name)
	return elsewhere && !statefulset.Held(pod) // the claim is given up, or its volume was already released
}

// reportRejectedRelease adds to the record's message that a pod stays held because the API server rejects a step. The next event tries the
// step again. The rejected write may be another one, so this is for releases that are late.
func (u undoing) reportRejectedRelease(pod *corev1.Pod) {
	held := fmt.Sprintf("pod %s stays held", pod.Name)
	if u.Rejected == "" || strings.Contains(u.Record.Message, held) {
		return
	}
	if u.Record.Message != "" {
		held = u.Record.Message + "; " + held
	}
	u.Report(u.Set, true, cmp.Or(u.Record.Reason, api.Rejected), "%s, because the API server rejects a step: %s. Fix that, then "+
		"Drydock continues", held, u.Rejected)
}

// releaseMember releases the member's pod. Once the pod is released, the member enters the phase.
func (u undoing) releaseMember(member *api.Member, phase api.MemberPhase) {
	pod := u.MemberPod(member.Ordinal)
	heldHere := blocksStart(pod) && api.HasLink(pod, u.Record.Operation, api.RoleHeld)
	switch {
	case heldHere && u.mustStayHeld(pod):
		u.WaitFor(false, "pod %s was deleted by force, and its containers have not ended", pod.Name)
		return
	case heldHere:
		u.Do(api.RollingBack, release(pod)...)
		if operation.Overdue(u.Record, u.Now) {
			u.reportRejectedRelease(pod)
		}
		return
	}
	member.Deadline = nil
	member.Phase = phase
}

// rollbackBegan reports whether a rollback has begun to replace claims: partial if these must come back together with the member's
// claims, own if they are the member's. A pod must not start on volumes of different times. Where all members stop together, neither may
// the set.
func (in Input) rollbackBegan(record *api.Resize, member *api.Member) (partial, own bool) {
	for _, m := range record.Members {
		if m.StoppedAt == nil || !slices.ContainsFunc(m.Claims, in.leavesVolume) {
			continue
		}
		own = own || m.Ordinal == member.Ordinal
		partial = partial || own || record.Strategy == api.StrategyWhole
	}
	return partial, own
}

// oldVolumesAvailable reports whether the member has, or can get back, every old volume.
func (in Input) oldVolumesAvailable(record *api.Resize, member *api.Member) bool {
	return !slices.ContainsFunc(member.Claims, func(move api.Move) bool {
		claim, volume := in.Claim(move.Claim), in.Volume(move.NewVolume)
		onVolume := claim != nil && claim.Spec.VolumeName == move.NewVolume
		return volume == nil || volume.DeletionTimestamp != nil || !onVolume && !isReturning(volume, record.Operation)
	})
}

// leavesVolume reports whether the claim has left its present volume or will soon leave it.
func (in Input) leavesVolume(move api.Move) bool {
	claim := in.Claim(move.Claim)
	return claim == nil || claim.Spec.VolumeName != move.OldVolume ||
		claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.FreezeFinalizer)
}

// mustFollowRollback reports whether a claim on its present volume must follow other claims of a rollback, even if the operation is given
// up or the hold is lost. No pod of the member can start while one of its claims is being deleted.
func (s swap) mustFollowRollback() bool {
	return s.newIsComplete && (s.held && s.rollbackPartial || s.memberPartial)
}
