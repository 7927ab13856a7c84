package pauseowner

import (
	"errors"
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// resumeAll ends pauses that nothing needs any more, one at a time.
func resumeAll(in Input, operations operation.Records) plan.Plan {
	var soon *plan.Plan
	for _, record := range in.OwnerRecords {
		switch p := resume(in, operations, record); {
		case p.Kind == plan.KindDo:
			return p
		case p.Soon:
			soon = &p
		}
	}
	switch {
	case soon != nil:
		return *soon
	case len(in.OwnerRecords) > 0:
		return plan.Noop(api.OwnerStays)
	case in.Set == nil || in.Set.DeletionTimestamp != nil:
		return plan.Noop(api.SetGone)
	}
	return plan.Noop(api.NotOurPhase)
}

// resume ends one pause and then removes its record. A pause ends when its operation is over. It ends earlier, as soon as the set has its
// replicas back, because pods may need their operator to become ready.
func resume(in Input, operations operation.Records, record OwnerRecord) plan.Plan {
	if record.Err != nil {
		return plan.Noop(api.OwnerStays)
	}
	current := operations.Find(record.Link.Operation)
	operatorStarts := record.operatorStarts(current)
	if in.needsPause(current, record.Link.Operation) && !operatorStarts && !record.ownerDisappears(current) {
		switch {
		case !operation.NoLongerStops(in.Set, current) || record.Row.Resume == owners.AtReady:
			return plan.Noop(api.OwnerStays)
		case !statefulset.SpecObserved(in.Set):
			return plan.WaitSoon(api.OwnerStays, "the StatefulSet controller has not seen the replicas yet")
		}
	}
	if denied := errors.Join(record.Denied, in.Rejected); denied != nil {
		return reportStuckPause(in, current, record, denied)
	}
	if record.Object != nil {
		release, err := record.release(operatorStarts)
		if err != nil {
			return plan.Noop(api.OwnerStays)
		}
		if len(release) > 0 {
			return plan.Do(api.OwnerResumed, release...)
		}
	}
	var actions []plan.Action
	if current != nil && current.Head().OwnerProblem != "" {
		actions = operation.Store(in.Set, withOwnerProblem(current, "")).Actions()
	}
	actions = append(actions, plan.Delete(plan.ControllerRevisions, record.Revision))
	return plan.Do(api.OwnerResumed, actions...).Then(events.OwnerResumed, record.Link.Operation)
}

// maxProblem limits the text of a stuck pause in a record, in bytes. It quotes the API server and webhooks. The record of a sleep clips
// longer texts, so they would differ from the stored one.
const maxProblem = 1000

// reportStuckPause reports on the set, once, that its owner stays paused because pause-owner has lost the rights to write it.
func reportStuckPause(in Input, current operation.Record, record OwnerRecord, denied error) plan.Plan {
	if current == nil {
		return plan.Noop(api.OwnerStays) // problems reports it
	}
	problem := fmt.Sprintf("%s %s stays paused: %v", record.Owner.Kind, record.Owner.Name, denied)
	if record.Row.Operator != "" {
		problem += ". Give the rights with kubectl drydock rbac --owners " + record.Row.Operator
	}
	if problem = text.Clip(problem, maxProblem); problem == current.Head().OwnerProblem {
		return plan.Noop(api.OwnerStays)
	}
	note := plan.Note{Warning: true, Reason: api.OwnerStays, Message: problem, UID: in.Set.UID, Operation: current.Head().Operation}
	store := operation.Store(in.Set, withOwnerProblem(current, problem))
	return plan.Do(api.OwnerStays, append(store.Actions(), plan.Event(in.Set.Namespace, in.Set.Name, note))...)
}

// withOwnerProblem returns a copy of the record that says why the owner stays paused.
func withOwnerProblem(current operation.Record, problem string) operation.Record {
	next := operation.Clone(current)
	next.Head().OwnerProblem = problem
	return next
}

// release restores the previous settings of the owner. A stop ends for all sets of the owner as soon as one of them wakes.
func (r OwnerRecord) release(forAll bool) ([]plan.Action, error) {
	if forAll {
		return owners.ReleaseAll(r.Resource, r.Object)
	}
	return owners.Release(r.Resource, r.Object, r.Link.Operation)
}

// operatorStarts reports whether the set is waking and its operator, which has stopped it, must start it.
func (r OwnerRecord) operatorStarts(current operation.Record) bool {
	return r.Owner.Stopped && current != nil && current.Head().Phase == api.Waking
}

// ownerDisappears reports whether the owner of a sleeping set is being deleted. The pause may keep the operator from finishing that
// deletion.
func (r OwnerRecord) ownerDisappears(current operation.Record) bool {
	return r.Object != nil && r.Object.GetDeletionTimestamp() != nil && current != nil && isSleep(current)
}

// needsPause reports whether the operation still needs its owner paused. The set's record decides. If there is no set, or the set has no
// record of the operation, the journal decides.
func (in Input) needsPause(current operation.Record, id string) bool {
	if current != nil {
		return current.Active()
	}
	return in.Journal(id) != nil
}

// problems returns what prevents the release of owners.
func (in Input) problems() error {
	var all []error
	if in.Rejected != nil && in.Set == nil {
		all = append(all, in.Rejected)
	}
	for _, r := range in.OwnerRecords {
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
