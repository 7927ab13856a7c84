package pauseowner

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on. Of the set's namespace, the embedded Observed contains only the journals of operations.
type Input struct {
	*world.Observed
	Settings api.Settings
	// Owners must be paused before the planned operation: the custom resource that controls the set, and the resources that scale it.
	Owners []Owner
	// Siblings are the other sets that the same resource controls. They are read only for a sleep.
	Siblings []*appsv1.StatefulSet
	// OwnerRecords are the records of owners that operations on this set have paused or were about to pause.
	OwnerRecords []OwnerRecord
	// Denied is the API server's refusal to let pause-owner write to an owner, or nil if there was none.
	Denied error
}

// Owner is a custom resource that would undo what an operation does to a StatefulSet.
type Owner struct {
	Ref      metav1.OwnerReference
	Row      owners.Row
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: the owner is gone
	// Allowed is true if a user who may write the resource or its namespace allows Drydock to pause and stop it.
	Allowed bool
	// Problem says why the owner cannot be paused.
	Problem string
}

// autoscalerKind is the kind of Kubernetes' own autoscaler. An owner of this kind has no operator's resource behind it.
const autoscalerKind = "HorizontalPodAutoscaler"

// Decide is pure.
func Decide(in Input) plan.Plan {
	operations, err := in.setOperations()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize or idle-timeout reports it on the set
	}
	if planned := in.plannedOperation(operations); planned != nil {
		return decidePlanned(in, planned)
	}
	return resumeAll(in, operations)
}

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

// decidePlanned pauses the owners of the planned operation, one at a time, and then starts the operation or ends it.
func decidePlanned(in Input, planned operation.Record) plan.Plan {
	switch {
	case abortRequested(in.Set) && isSleep(planned):
		return plan.Noop(api.NotOurPhase) // idle-timeout ends an aborted sleep
	case abortRequested(in.Set):
		return failOperation(in, planned, api.Aborted,
			"the operation was aborted with the annotation "+api.AbortAnnotation+" before the set was changed")
	case operation.Overdue(planned, in.Now):
		return failOperation(in, planned, api.DeadlineExceeded, timeoutMessage(in, planned))
	case !ownersApply(in.Set):
		return continueOperation(in, planned)
	case statefulset.Controller(in.Set) != nil && len(in.Owners) == 0:
		return plan.Noop(api.OwnerNotPausable) // the owners were read before the set had one
	}
	for _, o := range in.Owners {
		if p := pauseOrStop(in, planned, o); p.Kind != plan.KindNoop {
			return p
		}
	}
	return continueOperation(in, planned)
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

// pauseOrStop pauses one owner, or makes its operator stop the set. A Noop means that the owner is ready for the operation.
func pauseOrStop(in Input, planned operation.Record, o Owner) plan.Plan {
	switch {
	case in.Denied != nil && !in.alreadyHeld(planned, o):
		return refuseOwner(in, planned, o, "%v. Give the rights with kubectl drydock rbac --owners %s", in.Denied, o.Row.Operator)
	case o.Ref.Kind == autoscalerKind:
		return failOperation(in, planned, api.ScalerActive, fmt.Sprintf("%s %s would scale StatefulSet %s: %s. %s",
			o.Ref.Kind, o.Ref.Name, in.Set.Name, o.Problem, retryHint(in, planned)))
	case o.Problem != "":
		return refuseOwner(in, planned, o, "%s", o.Problem)
	case o.Object == nil:
		return refuseOwner(in, planned, o, "it does not exist")
	case o.Object.GetDeletionTimestamp() != nil:
		return failOperation(in, planned, api.OwnerDeleting, ownerDeletedMessage(in, planned, o))
	}
	by, p := chooseMeans(in, planned, o)
	switch {
	case p.Kind != plan.KindNoop:
		return p
	case !o.Allowed && !o.heldWithoutDrydock(by):
		return refuseOwner(in, planned, o, "%s", consentHint(in, o))
	}
	return recordAndHold(in, planned, o, by)
}

// heldWithoutDrydock reports whether the owner is paused or stopped by a user or another process. Drydock then writes nothing to it.
func (o Owner) heldWithoutDrydock(by owners.Means) bool {
	_, byDrydock := o.Object.GetAnnotations()[api.OwnerPausedAnnotation]
	return !byDrydock && o.Row.Held(by, o.Object)
}

// alreadyHeld reports whether the owner is already paused or stopped.
func (in Input) alreadyHeld(planned operation.Record, o Owner) bool {
	if o.Object == nil {
		return false
	}
	by, p := chooseMeans(in, planned, o)
	return p.Kind == plan.KindNoop && o.Row.Held(by, o.Object)
}

// chooseMeans returns how the owner is kept from undoing the operation. For a sleep, the operator's own stop comes first. Because it
// stops all of the operator's sets, all of them must be about to sleep. A paused operator would not obey a stop.
func chooseMeans(in Input, planned operation.Record, o Owner) (owners.Means, plan.Plan) {
	canPause, canStop := o.Row.Supports(owners.ByPause), o.Row.Supports(owners.ByStop)
	ready := plan.Noop(api.OwnerConsents)
	switch {
	case operatorStops(planned) && canStop && o.Row.Held(owners.ByStop, o.Object):
		return owners.ByStop, ready
	case !isSleep(planned) && !canPause:
		return "", refuseOwner(in, planned, o, "its operator can stop its sets for a sleep, but cannot be paused for another operation")
	case !isSleep(planned) || !canStop || canPause && o.Row.Held(owners.ByPause, o.Object):
		return owners.ByPause, ready
	}
	sibling, wakes := awakeSibling(in.Siblings)
	switch {
	case sibling == nil:
		return owners.ByStop, ready
	case wakes:
		return "", plan.Wait(api.SiblingAwake, "its operator is starting StatefulSet %s, which is waking up", sibling.Name)
	case statefulset.Managed(sibling) && sameGroup(sibling, in.Set) && statefulset.WhenScaled(sibling) == statefulset.Retain:
		return "", plan.Wait(api.SiblingAwake, "its operator also stops StatefulSet %s, which will sleep soon", sibling.Name)
	case canPause && !operatorStops(planned):
		return owners.ByPause, ready
	case statefulset.WhenScaled(sibling) != statefulset.Retain:
		return "", refuseClaimDeletion(in, planned, o, sibling.Name)
	}
	return "", refuseOwner(in, planned, o, "its operator can only stop all its sets, and StatefulSet %s is awake. "+
		"To let them sleep together, label both %s=true and give both the same label %s",
		sibling.Name, api.ManagedLabel, api.GroupLabel)
}

// awakeSibling returns a set that the owner's stop must not scale to zero now, or nil. Such a set is awake, is waking up, or would lose
// its claims. It also reports whether the set is waking up.
func awakeSibling(siblings []*appsv1.StatefulSet) (set *appsv1.StatefulSet, wakes bool) {
	for _, set := range siblings {
		sleep, err := api.LoadSleep(set)
		if err == nil && sleep.Active() && sleep.Phase == api.Waking {
			return set, true
		}
		asleep := err == nil && sleep.Active()
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
// resumed.
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
			Resource: o.Row.Plural(o.Ref.Kind), Name: o.Ref.Name, UID: o.Object.GetUID(), Stopped: by == owners.ByStop}
		actions = append([]plan.Action{plan.Create(plan.ControllerRevisions, resources.MakeOwnerRecord(in.Set, planned, doc))}, actions...)
	}
	return plan.Do(api.OwnerPausing, actions...)
}

// prepareStop stores that the operator scales the set, so that Drydock does not. It refuses a stop that would lose data: when an operator
// scales a set to zero, Drydock cannot keep the set's claims.
func prepareStop(in Input, planned operation.Record, o Owner) plan.Plan {
	switch {
	case statefulset.WhenScaled(in.Set) != statefulset.Retain:
		return refuseClaimDeletion(in, planned, o, in.Set.Name)
	case operatorStops(planned):
		return plan.Noop(api.OwnerConsents)
	}
	sleep, ok := planned.(*api.Sleep)
	if !ok {
		return plan.Noop(api.OwnerConsents) // an operator stops a set only for a sleep
	}
	next := sleep.Clone()
	next.OwnerStops = true
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

// continueOperation hands the operation to the function that stops the set.
func continueOperation(in Input, planned operation.Record) plan.Plan {
	var next operation.Record
	message := "the new volumes are being prepared"
	switch record := planned.(type) {
	case *api.Sleep:
		next = operation.Enter(record, api.Stopping, in.Now, in.Settings.QuiesceTimeout+statefulset.GracePeriod(in.Set))
		message = "the set is scaled to zero"
	case *api.Resize:
		next = operation.Enter(record, api.Moving, in.Now, in.Settings.CopyTimeout)
		if len(record.Members) == 0 {
			message = "the set is created again while its pods run"
		}
	}
	head := next.Head()
	head.Reason, head.Message = api.OwnerConsents, message
	return plan.Do(api.OwnerConsents, operation.Store(in.Set, next).Actions()...).Then(events.OwnerPaused, head.Operation).For(head.Kind)
}
