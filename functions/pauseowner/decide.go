package pauseowner

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/turns"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on. Of the set's namespace, the embedded Observed contains only the journals of operations.
type Input struct {
	*world.Observed
	Namespace string
	Settings  api.Settings
	// Owners must be paused before the planned operation: the custom resource that controls the set, and the resources that scale it.
	Owners []Owner
	// Controller is the custom resource that controls a set without operations, if its operator may have changed the metadata of the set; nil:
	// it was not read.
	Controller *Owner
	// OptInAdvice says how a set that has lost its label stays opted in; empty: its operator does not remove the label.
	OptInAdvice string
	// Siblings are the other sets that the same resource controls. They are read only for a sleep.
	Siblings []*appsv1.StatefulSet
	// OwnerRecords are the records of owners that operations on this set have paused or were about to pause.
	OwnerRecords []OwnerRecord
	// Consent is what the namespace lets Drydock change in owners. It is read if an owner disagrees that Drydock is to change.
	Consent api.OwnerConsent
	// Turns is the list of turns. It is nil if no limit applies, or if the list does not matter.
	Turns *turns.List
	// Rejected is the error if the API server permanently rejected a write of this event or a dry run, else nil.
	Rejected error
	// Untried is true if the dry run of a write to an owner was not possible. Only the sleep's next try shows the API server's answer.
	Untried bool
	// NotForeseen is true if the API server rejects a real write, but not its dry run. Later dry runs cannot show when the cause is gone, so
	// only the sleep's next try does.
	NotForeseen bool
	// Failures are the failed writes of this event.
	Failures plan.Failures
}

// Owner is a custom resource that would undo the changes of an operation to a StatefulSet.
type Owner struct {
	Ref      metav1.OwnerReference
	Row      owners.Row
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: the owner is gone
	// Allowed is true if the namespace allows Drydock to pause and stop the resource.
	Allowed bool
	// Problem says why the owner cannot be paused.
	Problem string
}

// autoscalerKind is the kind of Kubernetes' own autoscaler. An owner of this kind has no operator's resource behind it.
const autoscalerKind = "HorizontalPodAutoscaler"

// OwnerRecord is a record of a paused owner, with the owner as it is now.
type OwnerRecord struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
	Owner    *api.PausedOwner
	Row      owners.Row // empty: no row names the kind any more
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: the owner is gone
	Err      error                      // why the record cannot be read
	Denied   error                      // why pause-owner must not read the owner
	// Controls is true if the owner disagrees with the set after a resize, and still controls the set. Sets are then the owner's opted-in
	// sets, with this one.
	Controls bool
	Sets     []*appsv1.StatefulSet
}

// Decide is pure.
func Decide(in Input) plan.Plan {
	operations, err := in.setOperations()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize or idle-timeout reports it on the set
	}
	if planned := in.plannedOperation(operations); planned != nil {
		p := decidePlanned(in, planned)
		if p.Kind == plan.KindWait && !isSleep(planned) { // a resize may wait for its turn for long
			if resumed := resumeAll(in, operations); resumed.Kind == plan.KindDo {
				return resumed
			}
		}
		return p
	}
	if p := exchangeTurn(in, operations.Resize); p.Kind == plan.KindDo {
		return p
	}
	if p := endTurn(in, operations); p.Kind != plan.KindNoop {
		return p
	}
	resumed := resumeAll(in, operations)
	if resumed.Kind != plan.KindDo && in.refusedSleep(operations) != nil {
		return judgeRefusal(in, operations.Sleep)
	}
	if resumed.Kind == plan.KindNoop && in.Controller != nil {
		return mendMetadata(in)
	}
	return resumed
}

// decidePlanned pauses the owners of the planned operation, one at a time, and then starts the operation or ends it.
func decidePlanned(in Input, planned operation.Record) plan.Plan {
	switch {
	case operation.Aborted(in.Set) && isSleep(planned):
		return plan.Noop(api.NotOurPhase) // idle-timeout ends an aborted sleep
	case operation.Aborted(in.Set):
		return failOperation(in, planned, api.Aborted,
			operation.AbortWords(in.Set)+"the operation was ended before the set was changed")
	case operation.Overdue(planned, in.Now) && mayStartLate(in, planned):
		return renewDeadline(in, planned.(*api.Resize))
	case operation.Overdue(planned, in.Now):
		return failOperation(in, planned, api.DeadlineExceeded, timeoutMessage(in, planned))
	}
	if p := noteAddedMembers(in, planned); p.Kind != plan.KindNoop {
		return p
	}
	if p := takeTurn(in, planned); p.Kind != plan.KindNoop {
		return p
	}
	switch {
	case !ownersApply(in.Set):
		return continueOperation(in, planned)
	case statefulset.Controller(in.Set) != nil && len(in.Owners) == 0:
		return plan.Noop(api.OwnerNotPausable) // the owners were read before the set had one
	}
	holds, p := judgeOwners(in, planned) // first, because a stop that is given up has stopped the members for nothing
	if p.Kind != plan.KindNoop {
		return p
	}
	for _, stops := range []bool{false, true} { // stops come last: when another owner's write is rejected, no member has stopped
		for i, o := range in.Owners {
			if (holds[i].by == owners.ByStop) != stops {
				continue
			}
			if p := recordAndHold(in, planned, o, holds[i]); p.Kind != plan.KindNoop {
				return p
			}
		}
	}
	return continueOperation(in, planned)
}

// noteAddedMembers stores members that a user has added since the sleep was decided. A stop for this set or another one may come next.
func noteAddedMembers(in Input, planned operation.Record) plan.Plan {
	sleep, ok := planned.(*api.Sleep)
	if !ok || statefulset.Replicas(in.Set) <= sleep.Replicas {
		return plan.Noop(api.OwnerConsents)
	}
	next := sleep.Clone()
	next.Replicas = statefulset.Replicas(in.Set)
	return plan.Do(api.StatusUpdated, operation.Store(in.Set, next).Actions()...)
}

// hold is how an owner is kept from undoing the operation, with the writes to it. There are none if it is held already.
type hold struct {
	by      owners.Means
	actions []plan.Action
}

// judgeOwners returns the holds of all owners. If an owner cannot be held, the plan gives the operation up, or waits.
func judgeOwners(in Input, planned operation.Record) ([]hold, plan.Plan) {
	holds := make([]hold, len(in.Owners))
	for i, o := range in.Owners {
		by, p := judgeOwner(in, planned, o)
		if p.Kind != plan.KindNoop {
			return nil, p
		}
		actions, err := o.Row.Hold(by, o.Resource, o.Object, in.holderOf(planned, o))
		if err != nil {
			return nil, refuseOwner(in, planned, o, "%v", err)
		}
		holds[i] = hold{by, actions}
	}
	return holds, plan.Noop(api.OwnerConsents)
}

// judgeRefusal asks the owners of a refused sleep again. If none prevents the sleep any more, it stores so, and idle-timeout starts the
// sleep. A dry run stands for the writes to the owners. If the API server accepts the dry run and rejects the write, the sleep is tried
// at most once in SleepRetry: each try may stop the set's other owners.
func judgeRefusal(in Input, refused *api.Sleep) plan.Plan {
	if ownersApply(in.Set) {
		_, p := judgeOwners(in, refused)
		switch {
		case p.Kind == plan.KindDo || p.Reason == api.AlreadyRefused:
			return p
		case (in.Untried || refused.Step == api.AwaitsAdmission) && refused.Finished != nil &&
			operation.Within(in.Now, refused.Finished.Time, in.Settings.SleepRetry):
			return plan.Noop(api.AlreadyRefused)
		}
	}
	next := refused.Clone()
	next.Step, next.Reason, next.Message = api.CauseRemoved, api.CauseGone, "nothing prevents the sleep any more"
	return plan.Do(api.CauseGone, operation.Store(in.Set, next).Actions()...)
}

// judgeOwner returns how the owner is kept from undoing the operation. If it cannot be, the plan gives the operation up, or waits.
func judgeOwner(in Input, planned operation.Record, o Owner) (owners.Means, plan.Plan) {
	switch {
	case in.Rejected != nil && !in.alreadyHeld(planned, o):
		reason, when := api.OwnerNotPausable, ""
		if in.NotForeseen {
			reason, when = api.Rejected, "the API server accepts a dry run, and rejects the write: "
		}
		return "", refuseOwnerFor(reason, in, planned, o, "%s%v. If a policy, a webhook or a quota rejects the write, change that. If "+
			"rights are missing, apply the output of kubectl drydock rbac --owners %s", when, in.Rejected, o.Row.Operator)
	case o.Ref.Kind == autoscalerKind:
		return "", failOperation(in, planned, api.ScalerActive, fmt.Sprintf("%s %s would scale StatefulSet %s: %s. %s",
			o.Ref.Kind, o.Ref.Name, in.Set.Name, o.Problem, retryHint(in, planned)))
	case o.Problem != "":
		return "", refuseOwner(in, planned, o, "%s", o.Problem)
	case o.Object == nil:
		return "", refuseOwner(in, planned, o, "it does not exist")
	case isCopied(planned, o):
		return "", failOperation(in, planned, api.RequestOnOwner, requestOnOwnerMessage(in, planned, o))
	case o.Object.GetDeletionTimestamp() != nil:
		return "", failOperation(in, planned, api.OwnerDeleting, ownerDeletedMessage(in, planned, o))
	}
	by, p := chooseMeans(in, planned, o)
	switch {
	case p.Kind != plan.KindNoop:
		return "", p
	case by == owners.ByStop && statefulset.WhenScaled(in.Set) != statefulset.Retain:
		// when an operator scales a set to zero, Drydock cannot keep the set's claims
		return "", refuseClaimDeletion(in, planned, o, in.Set.Name)
	case !o.Allowed && !o.heldWithoutDrydock(by):
		return "", refuseOwner(in, planned, o, "%s", consentHint(in))
	}
	return by, plan.Noop(api.OwnerConsents)
}

// isCopied reports whether the resize was requested on the owner, too. The operator copies the request to each StatefulSet that it creates
// again with the old size, and the resize would begin again and again.
func isCopied(planned operation.Record, o Owner) bool {
	resize, ok := planned.(*api.Resize)
	return ok && resize.Request != "" && o.Object.GetAnnotations()[api.ResizeAnnotation] == resize.Request
}

// heldWithoutDrydock reports whether the owner is paused or stopped by a user or another process. Drydock then writes nothing to it.
func (o Owner) heldWithoutDrydock(by owners.Means) bool {
	_, byDrydock := o.Object.GetAnnotations()[api.OwnerPausedAnnotation]
	return !byDrydock && o.Row.Held(by, o.Object)
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
	if _, isResize := planned.(*api.Resize); isResize && len(in.Owners) == 0 {
		head.Reason = api.Preparing // a user who reads of an owner would look for one
	}
	return plan.Do(api.OwnerConsents, operation.Store(in.Set, next).Actions()...).Then(events.OwnerPaused, head.Operation).For(head.Kind)
}

// mendMetadata undoes what an operator did to the metadata of a set without operations, or reports it.
func mendMetadata(in Input) plan.Plan {
	switch {
	case in.Controller == nil:
		return plan.Noop(api.NotOurPhase)
	case in.OptInAdvice != "":
		return plan.Do(api.OptInLost, plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.OptInLost,
			UID: in.Set.UID, Message: fmt.Sprintf("StatefulSet %s has lost its label, so Drydock does not touch it any more: %s. If you "+
				"removed the label yourself, do nothing", in.Set.Name, in.OptInAdvice)}))
	case !statefulset.Managed(in.Set) || !hasCopy(in):
		return plan.Noop(api.NotManaged)
	case in.Controller.Problem != "":
		return plan.Noop(api.OwnerStays) // as long as the resource has the record, its operator would copy it again
	case in.Controller.Object != nil && in.Controller.Object.GetAnnotations()[api.OwnerPausedAnnotation] != "":
		return plan.Noop(api.OwnerStays)
	}
	return plan.Do(api.OwnerResumed, plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.OwnerPausedAnnotation).Actions()...)
}

// hasCopy reports whether the set has the annotation with the record of a pause, which belongs on a custom resource.
func hasCopy(in Input) bool {
	_, copied := in.Set.Annotations[api.OwnerPausedAnnotation]
	return copied
}
