package pauseowner

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
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

// refusedSleep returns the refused sleep of the set whose owners are asked again, or nil.
func (in Input) refusedSleep(operations operation.Records) *api.Sleep {
	if in.Set == nil || in.Set.DeletionTimestamp != nil || !statefulset.Managed(in.Set) || !idle.RefusedByOwner(operations.Sleep) {
		return nil
	}
	return operations.Sleep
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

// endsNow reports whether the planned operation is aborted or overdue. Its owners are not read, so that it ends, or gets its time once
// more, even if an owner cannot be read.
func endsNow(in Input, planned operation.Record) bool {
	return operation.Aborted(in.Set) || operation.Overdue(planned, in.Now)
}

// ownersApply reports whether the owners of the set are paused before an operation. The annotation owner-policy can switch that off.
func ownersApply(set *appsv1.StatefulSet) bool {
	return api.OwnerPolicy(set.Annotations[api.OwnerPolicyAnnotation]) != api.OwnerIgnore
}

// mayStartLate reports whether an overdue operation gets its time once more, because no owner was asked in it: the event was late, or an
// owner could not be read. Only a resize does, and only while the user still requests it. A sleep was decided on an old answer of a probe,
// and idle-timeout decides again later. A rollback would put volumes back that lack the latest data.
func mayStartLate(in Input, planned operation.Record) bool {
	resize, ok := planned.(*api.Resize)
	if !ok {
		return false
	}
	request, _ := api.RequestOf(in.Set)
	if resize.IsRollback() || request != resize.Request ||
		in.Set.Annotations[api.GrowToAnnotation] == "" && resize.IsGrowth() {
		return false
	}
	asked := func(r OwnerRecord) bool { return r.Link.Operation == resize.Operation }
	return !resize.StartsLater && !slices.ContainsFunc(in.OwnerRecords, asked)
}

// renewDeadline starts the time limit of the operation again. It does so once: after that, the operation fails.
func renewDeadline(in Input, resize *api.Resize) plan.Plan {
	next := operation.Enter(resize, api.Planned, in.Now, in.Settings.PlanTimeout)
	next.StartsLater = true
	next.Reason, next.Message = api.PlanDelayed, "no owner was asked before the time limit, which begins once more"
	return plan.Do(api.PlanDelayed, operation.Store(in.Set, next).Actions()...)
}
