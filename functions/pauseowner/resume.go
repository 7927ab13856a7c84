package pauseowner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// resumeAll ends pauses that nothing needs any more, one at a time. An owner that cannot be resumed does not keep another one paused.
func resumeAll(in Input, operations operation.Records) plan.Plan {
	var soon *plan.Plan
	stuck, open := map[string][]string{}, map[string]bool{} // by the operation whose record reports it
	for _, record := range in.OwnerRecords {
		p, problem := resume(in, operations, record)
		report := reportOf(operations, record)
		if report != nil {
			open[report.Head().Operation] = true
		}
		switch {
		case p.Kind == plan.KindDo:
			return p
		case p.Soon:
			soon = &p
		case problem != "" && report != nil:
			stuck[report.Head().Operation] = append(stuck[report.Head().Operation], problem)
		}
	}
	for _, record := range operations.All() { // a process died after it had ended the pause
		if record.Head().OwnerProblem != "" && !open[record.Head().Operation] {
			return plan.Do(api.OwnerResumed, operation.Store(in.Set, withOwnerProblem(record, "")).Actions()...)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		if p := reportStuckPauses(in, operations.Find(id), stuck[id]); p.Kind == plan.KindDo {
			return p
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

// longestRequest is how long after its record a write to the owner may arrive: an event ends after 25 seconds, and the API server ends a
// request after a minute. A write that ends the pause makes all earlier ones conflict.
const longestRequest = 2 * time.Minute

// resume ends one pause and then removes its record. A pause ends when its operation is over. It ends earlier, as soon as the set has its
// replicas back, because pods may need their operator to become ready. problem says why the owner cannot be resumed, or is empty.
func resume(in Input, operations operation.Records, record OwnerRecord) (p plan.Plan, problem string) {
	if record.Err != nil {
		return plan.Noop(api.OwnerStays), ""
	}
	current := operations.Find(record.Link.Operation)
	operatorStarts := record.operatorStarts(current)
	deleted := in.Set != nil && in.Set.DeletionTimestamp != nil && current != nil && isSleep(current) // nothing continues its sleep
	if in.needsPause(current, record.Link.Operation) && !operatorStarts && !deleted && !record.ownerDisappears(current) {
		switch {
		case !operation.NoLongerStops(in.Set, current) || record.Row.Resume == owners.AtReady:
			return plan.Noop(api.OwnerStays), ""
		case !statefulset.SpecObserved(in.Set):
			return plan.WaitSoon(api.OwnerStays, "the StatefulSet controller has not seen the replicas yet"), ""
		}
	}
	report := reportOf(operations, record)
	changes, problem := in.awaitAgreement(operations, record)
	if problem != "" {
		begin := in.beginWait(record).Actions()
		if len(begin) == 0 {
			return plan.Noop(api.OwnerStays), problem
		}
		if report == nil {
			begin = append(begin, in.warnOfPause(record.Link.Operation, problem))
		}
		return plan.Do(api.OwnerStays, begin...), ""
	}
	if problem := in.stuckProblem(record); problem != "" {
		return plan.Noop(api.OwnerStays), problem
	}
	var actions []plan.Action
	if record.Object != nil {
		release, err := record.release(operatorStarts, changes)
		switch {
		case err != nil:
			return plan.Noop(api.OwnerStays), ""
		case len(release) == 0 && operation.Within(in.Now, record.Revision.CreationTimestamp.Time, longestRequest):
			return plan.Noop(api.OwnerStays), "" // the write that pauses the owner may still be on its way
		}
		actions = release
		if text := in.lostSettings(record); text != "" {
			actions = append(actions, in.warnOfPause(record.Link.Operation, text))
		}
	}
	actions = append(actions, plan.Delete(plan.ControllerRevisions, record.Revision))
	if report != nil && report.Head().OwnerProblem != "" { // last: if the deletion is refused, the report must not go and come back
		actions = append(actions, operation.Store(in.Set, withOwnerProblem(report, "")).Actions()...)
	}
	return plan.Do(api.OwnerResumed, actions...).Then(events.OwnerResumed, record.Link.Operation), ""
}

// lostSettings says that the owner is still paused although its annotation, which has the former settings, is gone. Else it is empty.
func (in Input) lostSettings(record OwnerRecord) string {
	means := owners.ByPause
	if record.Owner.Stopped {
		means = owners.ByStop
	}
	if in.Set == nil || record.holder() != nil || !record.Row.Held(means, record.Object) {
		return ""
	}
	return fmt.Sprintf("%s %s is still held by a %s, but its annotation %s, which has the former settings, is gone. If nobody else holds it, "+
		"restore its settings by hand: the table in docs/owners.md names them", record.Owner.Kind, record.Owner.Name, means,
		api.OwnerPausedAnnotation)
}

// maxProblem limits the text of a stuck pause in a record, in bytes. It quotes the API server and webhooks. The record of a sleep clips
// longer texts, so they would differ from the stored one.
const maxProblem = 1000

// stuckProblem says why pause-owner cannot end the pause, and names the remedy. It is empty if nothing is in the way.
func (in Input) stuckProblem(record OwnerRecord) string {
	owner, revision := record.Owner.Kind+" "+record.Owner.Name, record.Revision.Name
	if record.Denied != nil {
		return fmt.Sprintf("%s stays paused: %v. To resume it, %s", owner, record.Denied, record.howToGiveRights())
	}
	if err := in.Failures.Of(record.Resource, record.Owner.Name); err != nil {
		remedy := "Remove the cause"
		if apierrors.IsForbidden(err) { // by missing rights, or by a policy or a webhook
			remedy = "If a policy or a webhook forbids it, change that. If rights are missing, " + record.howToGiveRights()
		}
		return fmt.Sprintf("%s stays paused: the API server rejects the write: %v. Drydock tries again with the next tick. %s", owner, err,
			remedy)
	}
	if err := in.Failures.Of(plan.ControllerRevisions, revision); err != nil {
		return fmt.Sprintf("the pause of %s for operation %s has ended, but its record, ControllerRevision %s, cannot be deleted: %v. Drydock "+
			"tries again with the next tick. Remove the cause", owner, record.Link.Operation, revision, err)
	}
	return ""
}

// howToGiveRights says how to give pause-owner the rights to the owner.
func (r OwnerRecord) howToGiveRights() string {
	if r.Row.Operator == "" { // no row names the kind any more
		return "give the account pause-owner the rights to get and patch it"
	}
	return fmt.Sprintf("give the rights with kubectl drydock rbac --owners %s | kubectl apply -f -", r.Row.Operator)
}

// reportOf returns the record of the set that says why the owner stays paused: that of the operation, or that of a later resize which has
// replaced it and does not run. It is nil if the set has neither.
func reportOf(operations operation.Records, record OwnerRecord) operation.Record {
	if current := operations.Find(record.Link.Operation); current != nil {
		return current
	}
	if operations.Resize == nil || operations.Resize.Active() {
		return nil
	}
	return operations.Resize
}

// reportStuckPauses reports on the set, once, why owners stay paused.
func reportStuckPauses(in Input, report operation.Record, problems []string) plan.Plan {
	slices.Sort(problems)
	problem := text.Clip(strings.Join(slices.Compact(problems), ". "), maxProblem)
	told := report.Head().OwnerProblem
	if problem == told || len(in.Failures) > 0 && withoutFigures(problem) == withoutFigures(told) { // a quoted error may have an id
		return plan.Noop(api.OwnerStays)
	}
	store := operation.Store(in.Set, withOwnerProblem(report, problem))
	return plan.Do(api.OwnerStays, append(store.Actions(), in.warnOfPause(report.Head().Operation, problem))...)
}

// warnOfPause returns the Event that says why an owner stays paused.
func (in Input) warnOfPause(operation, problem string) plan.Action {
	return plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.OwnerStays, Message: problem, UID: in.Set.UID,
		Operation: operation})
}

// withOwnerProblem returns a copy of the record that says why the owner stays paused.
func withOwnerProblem(current operation.Record, problem string) operation.Record {
	next := operation.Clone(current)
	next.Head().OwnerProblem = problem
	return next
}

// release restores the previous settings of the owner, and makes the changes. A stop ends for all sets of the owner as soon as one of them
// wakes.
func (r OwnerRecord) release(forAll bool, changes []owners.Difference) ([]plan.Action, error) {
	if forAll {
		return owners.ReleaseAll(r.Resource, r.Object)
	}
	return owners.Release(r.Resource, r.Object, r.Link.Operation, r.Link.Set.Name, changes...)
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
