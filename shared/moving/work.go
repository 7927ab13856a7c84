// Package moving has what backup and restore share while they carry out a resize: what both observe, the trust in its record, the collector
// of their steps, and what both do with its objects. They work on the same record, each on the members in its own phases.
package moving

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// Input is what the decisions of both functions depend on.
type Input struct {
	*world.Observed
	Settings api.Settings
	// Rejected is why the API server permanently rejected a write of this event. It is empty if it did not.
	Rejected string
}

// Work collects the steps of all members from one observation of the cluster.
type Work struct {
	Before, Record *api.Resize // the stored record, and its copy that the steps change
	Reason         api.Reason  // the reason of the plan
	Announce       string      // the event that follows the plan; empty if there is none

	actions []plan.Action
	notes   []plan.Action
	waiting string
	soon    bool
}

// Begin returns the work on the record, without any step.
func Begin(record *api.Resize) Work { return Work{Before: record, Record: record.Clone()} }

// Do adds actions, and sets the plan's reason.
func (w *Work) Do(reason api.Reason, actions ...plan.Action) {
	w.Reason, w.actions = reason, append(w.actions, actions...)
}

// Actions returns the collected actions, without Events.
func (w *Work) Actions() []plan.Action { return w.actions }

// Drop removes the collected actions for which is reports true.
func (w *Work) Drop(is func(plan.Action) bool) { w.actions = slices.DeleteFunc(w.actions, is) }

// WaitFor says why a member waits. Set soon if a controller of Kubernetes ends the wait within moments.
func (w *Work) WaitFor(soon bool, format string, args ...any) {
	w.waiting, w.soon = fmt.Sprintf(format, args...), w.soon || soon
}

// Waiting returns why a member waits. It is empty if none does.
func (w *Work) Waiting() string { return w.waiting }

// Idle reports whether no member has anything to do or to wait for.
func (w *Work) Idle() bool { return len(w.actions) == 0 && w.waiting == "" && w.Announce == "" }

// Report stores the reason and the message in the record and makes an Event of them. The Event of each stop needs its own words, because
// an Event that repeats an earlier one is not made.
func (w *Work) Report(set *appsv1.StatefulSet, warning bool, reason api.Reason, format string, args ...any) {
	w.Record.Reason, w.Record.Message = reason, fmt.Sprintf(format, args...)
	w.notes = append(w.notes, operation.NoteOf(set, w.Record, warning))
}

// Event makes an Event on the set.
func (w *Work) Event(set *appsv1.StatefulSet, warning bool, reason api.Reason, format string, args ...any) {
	w.notes = append(w.notes, plan.Event(set.Namespace, set.Name, plan.Note{Warning: warning, Reason: reason,
		Message: fmt.Sprintf(format, args...), UID: set.UID, Operation: w.Record.Operation}))
}

// Plan returns one plan for all members. It stores the record before the collected actions, so that every action is recorded before it is
// done, and after the dry runs. Without any action, the plan waits for the reason.
func (w *Work) Plan(set *appsv1.StatefulSet, wait api.Reason, dryRuns ...plan.Action) plan.Plan {
	actions := slices.Concat(dryRuns, operation.Store(set, w.Record).Actions(), w.actions, w.notes)
	if len(actions) == 0 {
		p := plan.Wait(wait, "%s", w.waiting)
		p.Soon = w.soon
		return p
	}
	p := plan.Do(w.Reason, actions...)
	if w.Announce != "" {
		p = p.Then(w.Announce, w.Record.Operation)
	}
	return p
}

// Revert gives the operation up: restore then releases every held pod, and each member stays on its present volumes. The actions in first
// come before that.
func Revert(in Input, record *api.Resize, why api.Reason, message string, first ...plan.Action) plan.Plan {
	next := operation.Revert(record, in.Now, in.Settings.SwapTimeout, why, message)
	return plan.Do(why, append(slices.Concat(first, operation.Store(in.Set, next).Actions()), operation.NoteOf(in.Set, next, true))...)
}
