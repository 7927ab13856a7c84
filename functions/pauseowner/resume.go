package pauseowner

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Record is a record of a paused owner, with the owner as it is now.
type Record struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
	Owner    *api.PausedOwner
	Row      owners.Row // empty: no row is about the kind any more
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: it is gone
	Err      error                      // the record cannot be read
	Denied   error                      // the API server does not let pause-owner read the owner
}

// resumeAll ends the pauses that nothing needs any more, one at a time.
func resumeAll(in Input, records operation.Records) plan.Plan {
	var soon *plan.Plan
	for _, record := range in.Records {
		switch p := resume(in, records, record); {
		case p.Kind == plan.KindDo:
			return p
		case p.Soon:
			soon = &p
		}
	}
	switch {
	case soon != nil:
		return *soon
	case len(in.Records) > 0:
		return plan.Noop(api.OwnerStays)
	case in.Set == nil || in.Set.DeletionTimestamp != nil:
		return plan.Noop(api.SetGone)
	}
	return plan.Noop(api.NotOurPhase)
}

// resume ends one pause and then removes the record: when its operation is over, or as soon as the set has its replicas back,
// because pods may need their operator to get ready.
func resume(in Input, records operation.Records, record Record) plan.Plan {
	if record.Err != nil {
		return plan.Noop(api.OwnerStays)
	}
	status := records.Find(record.Link.Operation)
	starts := record.starts(status)
	if in.runs(status, record.Link.Operation) && !starts && !record.vanishes(status) {
		switch {
		case !operation.GivenBack(in.Set, status) || record.Row.Resume == owners.AtReady:
			return plan.Noop(api.OwnerStays)
		case !statefulset.Seen(in.Set):
			return plan.WaitSoon(api.OwnerStays, "the StatefulSet controller has not seen the replicas yet")
		}
	}
	if denied := errors.Join(record.Denied, in.Denied); denied != nil {
		return stuck(in, status, record, denied)
	}
	if record.Object != nil {
		release, err := record.release(starts)
		if err != nil {
			return plan.Noop(api.OwnerStays)
		}
		if len(release) > 0 {
			return plan.Do(api.OwnerResumed, release...)
		}
	}
	var actions []plan.Action
	if status != nil && status.Head().OwnerProblem != "" {
		actions = operation.Store(in.Set, withOwnerProblem(status, "")).Actions()
	}
	actions = append(actions, plan.Delete(plan.ControllerRevisions, record.Revision))
	return plan.Do(api.OwnerResumed, actions...).Then(events.OwnerResumed, record.Link.Operation)
}

// stuck says on the set, once, that its owner stays paused because the rights to write it are gone.
func stuck(in Input, status operation.Record, record Record, denied error) plan.Plan {
	if status == nil {
		return plan.Noop(api.OwnerStays) // problems has it
	}
	problem := fmt.Sprintf("%s %s stays paused: %v", record.Owner.Kind, record.Owner.Name, denied)
	if record.Row.Operator != "" {
		problem += ". Give the rights with kubectl drydock rbac --owners " + record.Row.Operator
	}
	if problem == status.Head().OwnerProblem {
		return plan.Noop(api.OwnerStays)
	}
	note := plan.Note{Warning: true, Reason: api.OwnerStays, Message: problem, UID: in.Set.UID, Operation: status.Head().Operation}
	store := operation.Store(in.Set, withOwnerProblem(status, problem))
	return plan.Do(api.OwnerStays, append(store.Actions(), plan.Record(in.Set.Namespace, in.Set.Name, note))...)
}

// withOwnerProblem returns a copy of the record that says why the owner stays paused.
func withOwnerProblem(status operation.Record, problem string) operation.Record {
	next := operation.Clone(status)
	next.Head().OwnerProblem = problem
	return next
}

// release puts back what was there. A stop is over for all sets of the owner as soon as one of them wakes.
func (r Record) release(starts bool) ([]plan.Action, error) {
	if starts {
		return owners.ReleaseAll(r.Resource, r.Object)
	}
	return owners.Release(r.Resource, r.Object, r.Link.Operation)
}

// starts reports whether the set wakes and its operator, which has stopped it, is to start it.
func (r Record) starts(status operation.Record) bool {
	return r.Owner.Stopped && status != nil && status.Head().Phase == api.Waking
}

// vanishes reports whether the owner of a set that sleeps is being deleted: the pause may keep its operator from letting it go.
func (r Record) vanishes(status operation.Record) bool {
	return r.Object != nil && r.Object.GetDeletionTimestamp() != nil && status != nil && isSleep(status)
}

// runs reports whether the operation still needs its owner paused: it is under way by the set's document; or by a journal,
// while there is no set or one that tells of no operation.
func (in Input) runs(status operation.Record, id string) bool {
	if status != nil {
		return status.Active()
	}
	return in.Journal(id) != nil
}

// problems are what stands in the way of resuming.
func (in Input) problems() error {
	var all []error
	if in.Denied != nil && in.Set == nil {
		all = append(all, in.Denied)
	}
	for _, r := range in.Records {
		if r.Err != nil {
			all = append(all, r.Err)
			continue
		}
		if r.Denied != nil && in.Set == nil {
			all = append(all, r.Denied)
		}
		if r.Object != nil {
			if _, err := api.LoadPause(r.Object); err != nil {
				all = append(all, err)
			}
		}
	}
	return errors.Join(all...)
}
