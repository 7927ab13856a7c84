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

// Input is what Decide decides on. Of the set's surroundings it knows the journals of operations, and what follows.
type Input struct {
	*world.Observed
	Settings api.Settings
	// Owners are who is to be paused before the planned operation, of a set that needs it: the custom resource that controls
	// the set, and what scales it.
	Owners []Owner
	// Siblings are the other sets that the same resource controls. They are read for a sleep only.
	Siblings []*appsv1.StatefulSet
	// Records are the owners that operations on this set have paused, or were about to.
	Records []Record
	// Denied is why the API server did not let us pause an owner; nil when it was not asked yet.
	Denied error
}

// Owner is a custom resource that would undo what an operation does to a StatefulSet.
type Owner struct {
	Ref      metav1.OwnerReference
	Row      owners.Row
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: it is gone
	// Allowed: a person who may write the resource, or its namespace, allows that it is paused and stopped.
	Allowed bool
	// Problem says why it cannot be paused.
	Problem string
}

// autoscalerKind is the kind of Kubernetes' own scaler. One that stands in the way has no resource of an operator's behind it.
const autoscalerKind = "HorizontalPodAutoscaler"

// Decide is pure.
func Decide(in Input) plan.Plan {
	records, err := in.records()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize or idle-timeout says so on the set
	}
	if planned := in.planned(records); planned != nil {
		return consent(in, planned)
	}
	return resumeAll(in, records)
}

// records returns the records of the set; none if it does not exist. A cleanup does not concern the owner.
func (in Input) records() (operation.Records, error) {
	if in.Set == nil {
		return operation.Records{}, nil
	}
	records := operation.Of(in.Set)
	return records, cmp.Or(records.ResizeErr, records.SleepErr)
}

// planned returns the operation on the set that waits for the owners' consent; nil if none does.
func (in Input) planned(records operation.Records) operation.Record {
	for _, record := range records.All() {
		if record.Head().Phase == api.Planned && in.Set.DeletionTimestamp == nil {
			return record
		}
	}
	return nil
}

// isSleep reports whether the record is of a sleep, and not of a resize.
func isSleep(status operation.Record) bool {
	_, sleep := status.(*api.Sleep)
	return sleep
}

// ownerStops reports whether the owner's operator scales the set to zero and back in the operation.
func ownerStops(status operation.Record) bool {
	sleep, ok := status.(*api.Sleep)
	return ok && sleep.OwnerStops
}

// consent lets the planned operation go on, or gives it up.
func consent(in Input, status operation.Record) plan.Plan {
	switch {
	case aborted(in.Set) && isSleep(status):
		return plan.Noop(api.NotOurPhase) // idle-timeout ends it
	case aborted(in.Set):
		return giveUp(in, status, api.Aborted, "the operation was ended with the annotation "+api.AbortAnnotation+" before the set was touched")
	case operation.Overdue(status, in.Now):
		return giveUp(in, status, api.DeadlineExceeded, tookTooLong(in, status))
	case !ownersApply(in.Set):
		return goOn(in, status)
	case statefulset.Controller(in.Set) != nil && len(in.Owners) == 0:
		return plan.Noop(api.OwnerNotPausable) // it was read before the set had an owner
	}
	for _, o := range in.Owners {
		if p := ask(in, status, o); p.Kind != plan.KindNoop {
			return p
		}
	}
	return goOn(in, status)
}

func aborted(set *appsv1.StatefulSet) bool {
	_, abort := set.Annotations[api.AbortAnnotation]
	return abort
}

// asksOwners reports whether the operation waits for owners. One that is aborted or overdue does not, so that it ends also
// when an owner cannot be read.
func asksOwners(in Input, status operation.Record) bool {
	return status != nil && status.Head().Phase == api.Planned && !aborted(in.Set) && !operation.Overdue(status, in.Now) && ownersApply(in.Set)
}

// ownersApply reports whether the owners of the set are asked before an operation: the annotation owner-policy does not switch that off.
func ownersApply(set *appsv1.StatefulSet) bool {
	return api.OwnerPolicy(set.Annotations[api.OwnerPolicyAnnotation]) != api.OwnerIgnore
}

// ask pauses one owner, or has it stop the set. A Noop means that it consents.
func ask(in Input, status operation.Record, o Owner) plan.Plan {
	switch {
	case in.Denied != nil && !in.consents(status, o):
		return refuse(in, status, o, "%v. Give the rights with kubectl drydock rbac --owners %s", in.Denied, o.Row.Operator)
	case o.Ref.Kind == autoscalerKind:
		return giveUp(in, status, api.ScalerActive, fmt.Sprintf("%s %s would scale StatefulSet %s: %s. %s",
			o.Ref.Kind, o.Ref.Name, in.Set.Name, o.Problem, thenRetry(in, status)))
	case o.Problem != "":
		return refuse(in, status, o, "%s", o.Problem)
	case o.Object == nil:
		return refuse(in, status, o, "it does not exist")
	case o.Object.GetDeletionTimestamp() != nil:
		return giveUp(in, status, api.OwnerDeleting, beingDeleted(in, status, o))
	}
	by, p := means(in, status, o)
	switch {
	case p.Kind != plan.KindNoop:
		return p
	case !o.Allowed && !o.heldByOthers(by):
		return refuse(in, status, o, "%s", notAllowed(in, o))
	}
	return hold(in, status, o, by)
}

// heldByOthers reports whether the owner is paused or stopped without Drydock, so that nothing is written to it.
func (o Owner) heldByOthers(by owners.Means) bool {
	_, ours := o.Object.GetAnnotations()[api.OwnerPausedAnnotation]
	return !ours && o.Row.Held(by, o.Object)
}

// consents reports whether the owner is paused or stopped already.
func (in Input) consents(status operation.Record, o Owner) bool {
	if o.Object == nil {
		return false
	}
	by, p := means(in, status, o)
	return p.Kind == plan.KindNoop && o.Row.Held(by, o.Object)
}

// means says how the owner is kept from undoing the operation. Its operator's own stop comes first for a sleep, but stops all
// of its sets: so all have to be about to sleep. One that is paused would not obey a stop.
func means(in Input, status operation.Record, o Owner) (owners.Means, plan.Plan) {
	canPause, canStop := o.Row.Can(owners.ByPause), o.Row.Can(owners.ByStop)
	consents := plan.Noop(api.OwnerConsents)
	switch {
	case ownerStops(status) && canStop && o.Row.Held(owners.ByStop, o.Object):
		return owners.ByStop, consents
	case !isSleep(status) && !canPause:
		return "", refuse(in, status, o, "its operator can stop its sets for a sleep, but not pause for another operation")
	case !isSleep(status) || !canStop || canPause && o.Row.Held(owners.ByPause, o.Object):
		return owners.ByPause, consents
	}
	sibling, wakes := awakeSibling(in.Siblings)
	switch {
	case sibling == nil:
		return owners.ByStop, consents
	case wakes:
		return "", plan.Wait(api.SiblingAwake, "its operator is starting StatefulSet %s, which wakes up", sibling.Name)
	case statefulset.Managed(sibling) && sameGroup(sibling, in.Set) && statefulset.WhenScaled(sibling) == statefulset.Retain:
		return "", plan.Wait(api.SiblingAwake, "its operator stops StatefulSet %s too, which is about to sleep", sibling.Name)
	case canPause && !ownerStops(status):
		return owners.ByPause, consents
	case statefulset.WhenScaled(sibling) != statefulset.Retain:
		return "", deletesClaims(in, status, o, sibling.Name)
	}
	return "", refuse(in, status, o, "its operator can only stop all its sets, and StatefulSet %s is awake. "+
		"Label both %s=true, and %s with the same name, so that they sleep together",
		sibling.Name, api.ManagedLabel, api.GroupLabel)
}

// awakeSibling is a set that the stop of its owner would take by surprise: it is awake, or on its way to be, or would lose its
// claims.
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

func sameGroup(a, b *appsv1.StatefulSet) bool {
	group := a.Labels[api.GroupLabel]
	return group != "" && group == b.Labels[api.GroupLabel]
}

// hold writes the record first: whatever happens then, the owner is found and resumed.
func hold(in Input, status operation.Record, o Owner, by owners.Means) plan.Plan {
	if by == owners.ByStop {
		if p := beforeStop(in, status, o); p.Kind != plan.KindNoop {
			return p
		}
	}
	hold, err := o.Row.Hold(by, o.Resource, o.Object, api.Holder{Operation: status.Head().Operation, Set: in.Set.Name})
	if err != nil {
		return refuse(in, status, o, "%v", err)
	}
	if len(hold) == 0 {
		return plan.Noop(api.OwnerConsents)
	}
	if !in.recorded(status.Head().Operation, o) {
		doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: o.Object.GetAPIVersion(), Kind: o.Ref.Kind,
			Resource: o.Row.Plural(o.Ref.Kind), Name: o.Ref.Name, UID: o.Object.GetUID(), Stopped: by == owners.ByStop}
		hold = append([]plan.Action{plan.Create(plan.ControllerRevisions, resources.MakeOwnerRecord(in.Set, status, doc))}, hold...)
	}
	return plan.Do(api.OwnerPausing, hold...)
}

// beforeStop writes down that the operator scales the set, so that nobody else does; and refuses what would lose data: the
// claims of a set that its operator scales to zero are its own to keep.
func beforeStop(in Input, status operation.Record, o Owner) plan.Plan {
	switch {
	case statefulset.WhenScaled(in.Set) != statefulset.Retain:
		return deletesClaims(in, status, o, in.Set.Name)
	case ownerStops(status):
		return plan.Noop(api.OwnerConsents)
	}
	sleep, ok := status.(*api.Sleep)
	if !ok {
		return plan.Noop(api.OwnerConsents) // an operator stops a set for a sleep only
	}
	next := sleep.Clone()
	next.OwnerStops = true
	return plan.Do(api.OwnerPausing, operation.Store(in.Set, next).Actions()...)
}

func (in Input) recorded(operation string, o Owner) bool {
	for _, r := range in.Records {
		if r.Link.Operation == operation && r.Err == nil && r.Owner.UID == o.Object.GetUID() {
			return true
		}
	}
	return false
}

// goOn hands the operation to the function that stops the set.
func goOn(in Input, status operation.Record) plan.Plan {
	var next operation.Record
	message := "the new volumes are being prepared"
	switch record := status.(type) {
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
