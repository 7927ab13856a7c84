package cleanuppod

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Decide is pure. It takes one step. A cleanup pod has the name of the removed replica. While the pod exists, the set cannot start
// that replica on the claims that are being cleaned up.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return in.removeAllPods()
	}
	record, err := api.LoadCleanup(in.Set)
	if err != nil {
		return plan.Do(api.StatusInvalid, plan.Event(in.Set.Namespace, in.Set.Name,
			plan.Note{Warning: true, Reason: api.StatusInvalid, Message: err.Error(), UID: in.Set.UID}))
	}
	if p := in.removeStrayPods(record); p.Kind == plan.KindDo {
		return p
	}
	if in.Set.DeletionTimestamp != nil {
		return in.handleDeletion(record)
	}
	if p := in.reconcileFinalizer(); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case !statefulset.Managed(in.Set):
		return in.cancel(record, api.NotManaged, "the StatefulSet is no longer opted in")
	case operation.Of(in.Set).Busy(api.KindCleanup):
		return plan.Noop(api.InProgress)
	case members.Keeps(in.Set) && !members.Current(in.Set): // its order may be outdated
		return plan.Wait(api.MembersCounted, "the pods of the set are not counted yet")
	case !statefulset.CleanupAsked(in.Set):
		return in.cancel(record, api.NoCleanup, "the StatefulSet no longer has a cleanup pod template")
	}
	if _, problem := in.template(record); problem != nil {
		return in.refuse(record, problem)
	}
	if in.isAborted() && record.Active() {
		return in.cancel(record, api.Aborted, "aborted at the user's request")
	}
	return in.cleanUp(record)
}

// handleDeletion handles a set that is being deleted. With our finalizer, all its ordinals are cleaned up, as after a scale-down to
// zero.
func (in Input) handleDeletion(record *api.Cleanup) plan.Plan {
	if !cleanup.HasFinalizer(in.Set) {
		return in.cancel(record, api.SetGone, "the StatefulSet is being deleted")
	}
	if why := in.releaseReason(record); why != "" {
		return in.releaseSet(record, why)
	}
	return in.cleanUp(record)
}

// cleanUp returns the next step for the ordinals that a scale-down left behind.
func (in Input) cleanUp(record *api.Cleanup) plan.Plan {
	ordinals := in.ordinals()
	if p := in.markClaims(ordinals); p.Kind == plan.KindDo {
		return p
	}
	left := in.leftBehind(record, ordinals)
	if record.Active() {
		return in.continueCleanup(record, ordinals, left)
	}
	switch pod := in.replicaToStop(ordinals); {
	case in.hasWork(left) && in.startsAgain(record):
		return in.startCleanup(record, left)
	case len(left) == 0 && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.FinalizerRemoved, append(removeFinalizer(plan.PatchOf(plan.StatefulSets, in.Set)).Actions(),
			in.newReportEvents(record, in.reports(ordinals))...)...)
	case pod != "":
		return plan.Wait(api.MemberEnding, "pod %s has not ended yet", pod)
	}
	return in.refreshRecord(record, ordinals)
}

// markClaims marks the claims that replicas are seen to use.
func (in Input) markClaims(ordinals []cleanup.Ordinal) plan.Plan {
	var actions []plan.Action
	for _, c := range cleanup.NewlySeen(in.Set, ordinals) {
		actions = append(actions, plan.PatchOf(plan.Claims, c).Annotate(api.ReplicaOfAnnotation, string(in.Set.UID)).Actions()...)
	}
	return plan.Do(api.MembersSeen, actions...)
}
