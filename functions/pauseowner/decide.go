package pauseowner

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Input is what Decide decides on. Of the set's surroundings it knows the journals of operations, and what follows.
type Input struct {
	*sts.Observed
	Settings api.Settings
	// Owner is who is to be paused before the planned operation, of a set that needs it.
	Owner *Owner
	// Records are the owners that operations on this set have paused, or were about to.
	Records []Record
	// Denied is why the API server did not let us pause the owner; nil when it was not asked yet.
	Denied error
}

// Owner is a custom resource that controls a StatefulSet, itself or through another one.
type Owner struct {
	Ref      metav1.OwnerReference
	Row      owners.Row
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: it is gone
	// Problem says why it cannot be paused.
	Problem string
}

// Record is a record of a paused owner, with the owner as it is now.
type Record struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: it is gone
	Err      error                      // the record cannot be read
}

// Decide is pure.
func Decide(in Input) plan.Plan {
	status, err := in.Status()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize says so on the set
	}
	if in.Set != nil && in.Set.DeletionTimestamp == nil && status != nil && status.Phase == api.Planned {
		return consent(in, status)
	}
	for _, record := range in.Records {
		if p := resume(in, status, record); p.Kind == plan.KindDo {
			return p
		}
	}
	switch {
	case len(in.Records) > 0:
		return plan.Noop(api.OwnerStays)
	case in.Set == nil || in.Set.DeletionTimestamp != nil:
		return plan.Noop(api.SetGone)
	}
	return plan.Noop(api.NotOurPhase)
}

// consent lets the planned operation go on, or rolls it back.
func consent(in Input, status *api.Status) plan.Plan {
	_, abort := in.Set.Annotations[api.AbortAnnotation]
	switch {
	case abort:
		return rollBack(in, status, api.Aborted, "aborted before anything was touched")
	case plan.Overdue(status, in.Now):
		return rollBack(in, status, api.DeadlineExceeded, "the owner's consent took too long; ask again with the annotation "+api.RetryAnnotation)
	case !owned(in.Set):
		return goOn(in, status)
	case in.Owner == nil:
		return plan.Noop(api.OwnerNotPausable) // it was read before the set had an owner
	case in.Denied != nil:
		return refuse(in, status, "%v; to give the rights: kubectl drydock rbac --owners %s", in.Denied, in.Owner.Row.Operator)
	case in.Owner.Problem != "":
		return refuse(in, status, "%s", in.Owner.Problem)
	case in.Owner.Object == nil:
		return refuse(in, status, "it does not exist")
	case in.Owner.Object.GetDeletionTimestamp() != nil:
		return rollBack(in, status, api.OwnerDeleting, fmt.Sprintf("%s %s, which controls the set, is being deleted", in.Owner.Ref.Kind, in.Owner.Ref.Name))
	}
	return pause(in, status)
}

// asksOwner reports whether the operation waits for its owner. One that is aborted or overdue does not, so that it ends
// also when the owner cannot be read.
func asksOwner(in Input, status *api.Status) bool {
	if in.Set == nil || status == nil || status.Phase != api.Planned || plan.Overdue(status, in.Now) {
		return false
	}
	_, abort := in.Set.Annotations[api.AbortAnnotation]
	return !abort && owned(in.Set)
}

// owned reports whether somebody has to be paused before the set is stopped.
func owned(set *appsv1.StatefulSet) bool {
	return sts.Controller(set) != nil && api.OwnerPolicy(set.Annotations[api.OwnerPolicyAnnotation]) != api.OwnerIgnore
}

// pause writes the record first: whatever happens then, the owner is found and resumed.
func pause(in Input, status *api.Status) plan.Plan {
	o := in.Owner
	hold, err := o.Row.Hold(o.Resource, o.Object, api.Holder{Operation: status.Operation, Set: in.Set.Name})
	if err != nil {
		return refuse(in, status, "%v", err)
	}
	if len(hold) == 0 {
		return goOn(in, status)
	}
	if !in.recorded(status.Operation) {
		doc := api.PausedOwner{Version: api.StatusVersion, APIVersion: o.Object.GetAPIVersion(), Kind: o.Ref.Kind,
			Resource: o.Row.Plural(o.Ref.Kind), Name: o.Ref.Name, UID: o.Object.GetUID()}
		hold = append([]plan.Action{plan.Create(plan.ControllerRevisions, resources.MakeOwnerRecord(in.Set, status, doc))}, hold...)
	}
	return plan.Do(api.OwnerPausing, hold...)
}

func (in Input) recorded(operation string) bool {
	for _, r := range in.Records {
		if r.Link.Operation == operation {
			return true
		}
	}
	return false
}

// goOn hands the operation to backup.
func goOn(in Input, status *api.Status) plan.Plan {
	next := plan.Enter(status, api.Copying, in.Now, in.Settings.CopyTimeout)
	next.Reason, next.Message = api.OwnerConsents, "the targets are prepared"
	return plan.Do(api.OwnerConsents, plan.Store(in.Set, next).Actions()...).Then(events.OwnerPaused, status.Operation)
}

// refuse rolls back an operation whose owner would undo it (I5).
func refuse(in Input, status *api.Status, why string, args ...any) plan.Plan {
	return rollBack(in, status, api.OwnerNotPausable, fmt.Sprintf("%s %s controls the set and cannot be paused: %s. Or pause it yourself, set the "+
		"annotation %s=%s and ask again with %s", in.Owner.Ref.Kind, in.Owner.Ref.Name, fmt.Sprintf(why, args...),
		api.OwnerPolicyAnnotation, api.OwnerIgnore, api.RetryAnnotation))
}

func rollBack(in Input, status *api.Status, reason api.Reason, message string) plan.Plan {
	next := plan.RollBack(status, in.Now, in.Settings.SwitchTimeout, reason, message)
	return plan.Do(reason, plan.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
}

// resume ends one pause when its operation is over, and then removes the record.
func resume(in Input, status *api.Status, record Record) plan.Plan {
	if record.Err != nil || in.runs(status, record.Link.Operation) {
		return plan.Noop(api.OwnerStays)
	}
	if record.Object != nil {
		release, err := owners.Release(record.Resource, record.Object, record.Link.Operation)
		if err != nil {
			return plan.Noop(api.OwnerStays)
		}
		if len(release) > 0 {
			return plan.Do(api.OwnerResumed, release...)
		}
	}
	return plan.Do(api.OwnerResumed, plan.Delete(plan.ControllerRevisions, record.Revision)).Then(events.OwnerResumed, record.Link.Operation)
}

// runs reports whether the operation still needs its owner paused: it is under way by the set's status; or by a journal,
// while there is no set or one that tells of no operation; or a claim was left that is not whole, on which no pod may start.
func (in Input) runs(status *api.Status, operation string) bool {
	if status != nil && status.Operation == operation {
		return status.Active() || status.Held()
	}
	return in.Journal(operation) != nil
}

// problems are what stands in the way of resuming.
func (in Input) problems() error {
	var all []error
	for _, r := range in.Records {
		if r.Err != nil {
			all = append(all, r.Err)
			continue
		}
		if r.Object != nil {
			if _, err := api.LoadPause(r.Object); err != nil {
				all = append(all, err)
			}
		}
	}
	return errors.Join(all...)
}
