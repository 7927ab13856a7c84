package pauseowner

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
)

// recordAndHold writes the record before it pauses or stops the owner. Whatever happens afterwards, the owner is found by the record and
// resumed. A Noop means that the owner is ready for the operation.
func recordAndHold(in Input, planned operation.Record, o Owner, by owners.Means) plan.Plan {
	if by == owners.ByStop {
		if p := prepareStop(in, planned, o); p.Kind != plan.KindNoop {
			return p
		}
	}
	actions, err := o.Row.Hold(by, o.Resource, o.Object, api.Holder{Operation: planned.Head().Operation, Set: in.Set.Name})
	if err != nil {
		return refuseOwner(in, planned, o, "%v", err)
	}
	if len(actions) == 0 {
		return plan.Noop(api.OwnerConsents)
	}
	if !in.hasRecord(planned.Head().Operation, o) {
		doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: o.Object.GetAPIVersion(), Kind: o.Ref.Kind,
			Resource: o.Row.Plural(o.Ref.Kind), Name: o.Ref.Name, UID: o.Object.GetUID(), Stopped: by == owners.ByStop,
			KindBelow: operation.KindBelow(in.Set, o.Object.GetUID())}
		actions = append([]plan.Action{plan.Create(plan.ControllerRevisions, resources.MakeOwnerRecord(in.Set, planned, doc))}, actions...)
	}
	return plan.Do(api.OwnerPausing, actions...)
}

// prepareStop stores that the operator scales the set, so that Drydock does not.
func prepareStop(in Input, planned operation.Record, o Owner) plan.Plan {
	sleep, ok := planned.(*api.Sleep)
	if !ok || sleep.OwnerStops { // an operator stops a set only for a sleep
		return plan.Noop(api.OwnerConsents)
	}
	next := sleep.Clone()
	next.OwnerStops, next.StoppedOwner = true, o.Object.GetUID()
	return plan.Do(api.OwnerPausing, operation.Store(in.Set, next).Actions()...)
}

// hasRecord reports whether the operation already has a record of the owner.
func (in Input) hasRecord(operation string, o Owner) bool {
	for _, r := range in.OwnerRecords {
		if r.Link.Operation == operation && r.Err == nil && r.Owner.UID == o.Object.GetUID() {
			return true
		}
	}
	return false
}
