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
func recordAndHold(in Input, planned operation.Record, o Owner, h hold) plan.Plan {
	if h.by == owners.ByStop {
		if p := prepareStop(in, planned, o); p.Kind != plan.KindNoop {
			return p
		}
	}
	writes := in.writesOf(planned, o, h)
	if len(writes) == 0 {
		return plan.Noop(api.OwnerConsents)
	}
	return plan.Do(api.OwnerPausing, writes...)
}

// writesOf returns the writes of the hold: the record, if there is none yet, and then the owner.
func (in Input) writesOf(planned operation.Record, o Owner, h hold) []plan.Action {
	id := planned.Head().Operation
	if len(h.actions) == 0 || in.hasRecord(id, o) {
		return h.actions
	}
	doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: o.Object.GetAPIVersion(), Kind: o.Ref.Kind,
		Resource: o.Row.Plural(o.Ref.Kind), Name: o.Ref.Name, UID: o.Object.GetUID(), Stopped: h.by == owners.ByStop}
	return append([]plan.Action{plan.Create(plan.ControllerRevisions, resources.MakeOwnerRecord(in.Set, planned, doc))}, h.actions...)
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
