package detectresize

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// withdrawRequests ends the failed operation. Claims stop requesting more than their volumes have, as far as Kubernetes allows, so that the
// storage stops trying. After a missed deadline the requests stay, because the storage may only be slow. If it has reached a withdrawn
// size, or still works on it and so will reach it, the claim requests that size again. So a retry knows that less shrinks the volume.
func withdrawRequests(in Input, record *api.Resize) plan.Plan {
	var withdrawals []plan.Action
	for i := range record.Expansions {
		e := &record.Expansions[i]
		if claim := in.Claim(e.Claim); claim != nil && claim.UID == e.UID {
			withdrawals = append(withdrawals, withdrawRequest(record.Reason, claim, e).Actions()...)
		}
	}
	next := record.Clone()
	if len(withdrawals) > 0 && in.Rejected == "" {
		return plan.Do(record.Reason, withdrawals...)
	}
	if in.Rejected != "" && record.Reason != api.Rejected {
		next.Message += ". The API server rejected the change of the claims' requests: " + in.Rejected
	}
	next.Phase, next.Deadline, next.Finished = api.Failed, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation)
}

// withdrawRequest returns the patch that makes a claim request what its volume has, or will have.
func withdrawRequest(reason api.Reason, claim *corev1.PersistentVolumeClaim, e *api.Expansion) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	switch {
	case statefulset.ReachedWithdrawn(claim, e.Withdraws):
		patch = operation.RequestGrown(claim, e.Withdraws)
	case reason == api.Aborted || reason == api.ExpandInfeasible && statefulset.Infeasible(claim, e.To):
		patch = operation.LowerRequest(claim, e.From, e.To)
	case e.Withdraws.Sign() > 0 && statefulset.StorageGrows(claim, statefulset.Requested(claim)):
		patch = operation.RaiseRequest(claim, claim.Status.AllocatedResources[corev1.ResourceStorage], resource.Quantity{})
	}
	withdrawAttributes(reason, patch, claim, e)
	return patch
}
