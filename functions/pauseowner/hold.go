package pauseowner

import (
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// alreadyHeld reports whether the owner is already paused or stopped.
func (in Input) alreadyHeld(planned operation.Record, o Owner) bool {
	if o.Object == nil {
		return false
	}
	by, p := chooseMeans(in, planned, o)
	return p.Kind == plan.KindNoop && o.Row.Held(by, o.Object)
}

// chooseMeans returns how the owner is kept from undoing the operation. For a sleep, the operator's own stop comes first if its row
// prefers it. Because it stops all of the operator's sets, all of them must be about to sleep. A paused operator would not obey a stop.
func chooseMeans(in Input, planned operation.Record, o Owner) (owners.Means, plan.Plan) {
	canPause, canStop := o.Row.Supports(owners.ByPause), o.Row.Supports(owners.ByStop)
	ready := plan.Noop(api.OwnerConsents)
	switch {
	case operatorStops(planned) && canStop && o.Row.Held(owners.ByStop, o.Object):
		return owners.ByStop, ready
	case !isSleep(planned) && !canPause:
		return "", refuseOwner(in, planned, o, "its operator can stop its sets for a sleep, but cannot be paused for another operation")
	case !isSleep(planned) || !canStop || !o.Row.PrefersStop() || canPause && o.Row.Held(owners.ByPause, o.Object):
		return owners.ByPause, ready
	}
	sibling, wakes := awakeSibling(in.Set, in.Siblings)
	switch {
	case sibling == nil:
		return owners.ByStop, ready
	case wakes:
		return "", plan.Wait(api.SiblingAwake, "its operator is starting StatefulSet %s, which is waking up", sibling.Name)
	case ownersApply(sibling) && statefulset.Managed(sibling) && sameGroup(sibling, in.Set) &&
		statefulset.WhenScaled(sibling) == statefulset.Retain:
		return "", plan.Wait(api.SiblingAwake, "its operator also stops StatefulSet %s, which will sleep soon", sibling.Name)
	case canPause && !operatorStops(planned):
		return owners.ByPause, ready
	case statefulset.WhenScaled(sibling) != statefulset.Retain:
		return "", refuseClaimDeletion(in, planned, o, sibling.Name)
	}
	if !ownersApply(sibling) {
		return "", refuseOwner(in, planned, o, "its operator can only stop all its sets, and StatefulSet %s has the annotation %s=%s, so it "+
			"does not sleep and wake with them. Remove that annotation", sibling.Name, api.OwnerPolicyAnnotation, api.OwnerIgnore)
	}
	return "", refuseOwner(in, planned, o, "its operator can only stop all its sets, and StatefulSet %s is awake. "+
		"To let them sleep together, label both %s=true and give both the same label %s",
		sibling.Name, api.ManagedLabel, api.GroupLabel)
}

// awakeSibling returns a sibling of the set that the owner's stop must not scale to zero now, or nil. Such a set is awake, is waking up, or
// would lose its claims. A planned sleep of another group counts as awake, because a visit may end it at any time, and idle-timeout then
// does not see the stop. A set that ignores its owner counts as awake, because its wake-up would not end the stop. awakeSibling also
// reports whether the sibling is waking up.
func awakeSibling(of *appsv1.StatefulSet, siblings []*appsv1.StatefulSet) (set *appsv1.StatefulSet, wakes bool) {
	for _, set := range siblings {
		sleep, err := api.LoadSleep(set)
		if !ownersApply(set) {
			return set, false
		}
		if err == nil && sleep.Active() && sleep.Phase == api.Waking {
			return set, true
		}
		sleeps := statefulset.Managed(set) && sleep.Active() && (sleep.OwnerStops || sameGroup(set, of))
		asleep := err == nil && sleep.Active() && (sleep.Phase != api.Planned || sleeps)
		if statefulset.Replicas(set) > 0 && (!asleep || statefulset.WhenScaled(set) != statefulset.Retain) {
			return set, false
		}
	}
	return nil, false
}

// sameGroup reports whether both sets have the same label group.
func sameGroup(a, b *appsv1.StatefulSet) bool {
	group := a.Labels[api.GroupLabel]
	return group != "" && group == b.Labels[api.GroupLabel]
}

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
