package restore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// Decide is pure. Each call plans the next step only; the executor calls it again until nothing is left to do.
func Decide(in Input) plan.Plan {
	p, _ := decide(in)
	return p
}

// decide returns the plan, and the pods that must answer the member check first. With their answers, decide is called again.
func decide(in Input) (plan.Plan, []*corev1.Pod) {
	if in.NamespaceTerminating {
		return releaseForNamespaceDeletion(in), nil
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid), nil // detect-resize reports it on the set
	}
	if p, taken := recoverLost(in, record); taken {
		return p, nil
	}
	if record == nil {
		return handleIdle(in, record), nil
	}
	if in.WriteFailed != "" && !operation.Overdue(record, in.Now) && !in.swapIsLate(record) {
		return plan.Noop(api.Rejected), nil // the event fails and is delivered again
	}
	switch record.Phase {
	case api.Moving, api.Reverting, api.Finishing:
		if in.Set.DeletionTimestamp != nil {
			return handleTerminatingSet(in, record), nil
		}
		return continueOperation(in, record)
	}
	return handleIdle(in, record), nil
}

// swapIsLate reports whether the deadline of a stopped member has passed, and none of its claims was deleted yet. The operation then
// ends, so that the member starts again.
func (in Input) swapIsLate(record *api.Resize) bool {
	return record.Phase == api.Moving && slices.ContainsFunc(record.Members, func(m api.Member) bool {
		if began, _ := in.rollbackBegan(record, &m); began && record.IsRollback() { // the member must follow
			return false
		}
		return m.Phase == api.MemberSwapping && operation.Past(m.Deadline, in.Now) && !slices.ContainsFunc(m.Claims, in.leavesVolume)
	})
}

// continueOperation continues the operation of the record if its journal agrees with the record.
func continueOperation(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if record.Phase == api.Moving && in.Journal(record.Operation) == nil && record.Set.UID != "" && len(record.Members) > 0 {
		if message := resize.Forged(in.Observed, record); message != "" {
			return revert(in, record, api.StatusInvalid, message), nil
		}
		return plan.Noop(api.NotOurPhase), nil // backup writes the journal first
	}
	if problem := journalConflict(in, record); problem != "" {
		return failUntrusted(in, record, problem), nil
	}
	in = confineVolumes(in, record.Operation)
	if record.Set.UID == "" {
		return recordIdentity(in, record), nil
	}
	switch record.Phase {
	case api.Reverting:
		return handleReverting(in, record), nil
	case api.Finishing:
		return handleFinishing(in, record), nil
	}
	return handleMoving(in, record)
}

// releaseForNamespaceDeletion removes Drydock's finalizers, because they would block the deletion of the namespace. The namespace
// controller deletes the pods first and waits until they are gone (kubernetes pkg/controller/namespace/deletion). No pod can start on an
// empty volume, because nothing can be created in a terminating namespace. The volumes stay; retire finds them by their links.
func releaseForNamespaceDeletion(in Input) plan.Plan {
	var actions []plan.Action
	for _, pod := range in.Pods {
		if statefulset.Held(pod) {
			actions = append(actions, release(pod)...)
		}
	}
	for _, claim := range in.Claims {
		if claim.DeletionTimestamp != nil {
			actions = append(actions, plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.FreezeFinalizer).Actions()...)
		}
	}
	if len(actions) == 0 {
		return plan.Noop(api.NamespaceTerminating)
	}
	return plan.Do(api.NamespaceTerminating, actions...)
}

// handleIdle handles a set without an active operation. It removes movers, and releases pods and volumes, that earlier operations left.
func handleIdle(in Input, record *api.Resize) plan.Plan {
	releases, warnings := staleHoldReleases(in, record)
	if releases = append(releases, leftMovers(in, record)...); len(releases) > 0 {
		return plan.Do(api.CleaningUp, in.ifSetUnchanged(releases)...)
	}
	p := retire(in, record)
	if p.Kind != plan.KindDo && len(warnings) > 0 {
		return plan.Do(api.CleaningUp, warnings...)
	}
	return p
}
