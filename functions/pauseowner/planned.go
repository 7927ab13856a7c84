package pauseowner

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// setOperations returns the records of the set's operations, or none if the set does not exist. Errors in a cleanup's record do not
// count, because a cleanup does not concern the owner.
func (in Input) setOperations() (operation.Records, error) {
	if in.Set == nil {
		return operation.Records{}, nil
	}
	records := operation.Of(in.Set)
	return records, cmp.Or(records.ResizeErr, records.SleepErr)
}

// plannedOperation returns the operation on the set that waits for the owners to be paused, or nil.
func (in Input) plannedOperation(operations operation.Records) operation.Record {
	for _, record := range operations.All() {
		if record.Head().Phase == api.Planned && in.Set.DeletionTimestamp == nil {
			return record
		}
	}
	return nil
}

// isSleep reports whether the record is of a sleep and not of a resize.
func isSleep(record operation.Record) bool {
	_, sleep := record.(*api.Sleep)
	return sleep
}

// operatorStops reports whether the owner's operator scales the set to zero and back in the operation.
func operatorStops(record operation.Record) bool {
	sleep, ok := record.(*api.Sleep)
	return ok && sleep.OwnerStops
}

// abortRequested reports whether the set has the annotation abort.
func abortRequested(set *appsv1.StatefulSet) bool {
	_, abort := set.Annotations[api.AbortAnnotation]
	return abort
}

// needsOwners reports whether the operation waits for owners. An aborted or overdue operation does not, so that it ends even if an owner
// cannot be read.
func needsOwners(in Input, planned operation.Record) bool {
	return planned != nil && planned.Head().Phase == api.Planned && !abortRequested(in.Set) && !operation.Overdue(planned, in.Now) &&
		ownersApply(in.Set)
}

// ownersApply reports whether the owners of the set are paused before an operation. The annotation owner-policy can switch that off.
func ownersApply(set *appsv1.StatefulSet) bool {
	return api.OwnerPolicy(set.Annotations[api.OwnerPolicyAnnotation]) != api.OwnerIgnore
}

// isUnseen reports whether the deadline has passed before pause-owner could look at the operation: its event was late. The deadline is for
// the owners, and none was asked yet.
func isUnseen(in Input, planned operation.Record) bool {
	head := planned.Head()
	return operation.Overdue(planned, in.Now) && head.Reason != api.PlanDelayed && head.Reason != api.TurnBegins && !operatorStops(planned) &&
		!slices.ContainsFunc(in.OwnerRecords, func(r OwnerRecord) bool { return r.Link.Operation == head.Operation })
}

// renewDeadline gives an unseen operation its time once more. If the owners cannot be read, it fails after that.
func renewDeadline(in Input, planned operation.Record) plan.Plan {
	var next operation.Record
	switch record := planned.(type) {
	case *api.Sleep:
		next = operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	case *api.Resize:
		next = operation.Enter(record, api.Planned, in.Now, in.Settings.PlanTimeout)
	default:
		return plan.Noop(api.NotOurPhase)
	}
	next.Head().Reason = api.PlanDelayed
	next.Head().Message = "the operation was planned long ago and begins now, because its event was late"
	return plan.Do(api.PlanDelayed, operation.Store(in.Set, next).Actions()...)
}
