package restore

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// work collects the actions for all members from one observation of the cluster.
type work struct {
	Input
	before, record *api.Resize
	dryRuns        []plan.Action // dry runs, before the record is stored
	actions        []plan.Action // after the record was stored
	eventActions   []plan.Action
	announce       string
	waiting        string
	soon           bool
	stuckReported  bool          // the record says why a member stays held
	podsToAsk      []*corev1.Pod // their answers to the member check are missing
	override       plan.Plan     // replaces the collected plan, for example to replace the set
	reason         api.Reason
}

// idle reports whether no member has anything to do or to wait for.
func (w *work) idle() bool {
	return len(w.actions) == 0 && w.waiting == "" && w.announce == "" && w.override.Kind == ""
}

// do adds actions and sets the plan's reason.
func (w *work) do(reason api.Reason, actions ...plan.Action) {
	w.reason, w.actions = reason, append(w.actions, actions...)
}

// waitFor records why a member waits. Set soon if a controller of Kubernetes ends the wait within moments.
func (w *work) waitFor(soon bool, format string, args ...any) {
	w.waiting, w.soon = fmt.Sprintf(format, args...), w.soon || soon
}

// report stores the reason and the message in the record and makes an Event of them. The Event of each stop needs its own words, because
// an Event that repeats an earlier one is not made.
func (w *work) report(warning bool, reason api.Reason, format string, args ...any) {
	w.record.Reason, w.record.Message = reason, fmt.Sprintf(format, args...)
	w.eventActions = append(w.eventActions, operation.NoteOf(w.Set, w.record, warning))
}

// addEvent makes an Event on the set.
func (w *work) addEvent(warning bool, reason api.Reason, format string, args ...any) {
	w.eventActions = append(w.eventActions, plan.Event(w.Set.Namespace, w.Set.Name, plan.Note{Warning: warning, Reason: reason,
		Message: fmt.Sprintf(format, args...), UID: w.Set.UID, Operation: w.record.Operation}))
}

// rank orders the actions of a plan. Locks come first: if the API server rejects one, no pod was stopped for it. A rollback creates claims
// last: the quota then no longer counts the claims that they replace.
func (w *work) rank(a plan.Action) int {
	switch {
	case a.Verb == plan.VerbCreate && a.Resource == plan.Pods:
		return 0
	case a.Verb == plan.VerbCreate && a.Resource == plan.Claims && w.record.IsRollback():
		return 2
	}
	return 1
}

// plan returns one plan for all members. It stores the record first, so that every action is recorded before it is done.
func (w *work) plan() plan.Plan {
	if w.override.Kind != "" {
		return w.override
	}
	if w.before.Phase == api.Moving && w.idle() && allMoved(w.record) {
		return enterFinishing(w.Input, w.record)
	}
	store := operation.Store(w.Set, w.record)
	slices.SortStableFunc(w.actions, func(a, b plan.Action) int { return cmp.Compare(w.rank(a), w.rank(b)) })
	actions := slices.Concat(w.dryRuns, store.Actions(), w.actions, w.eventActions)
	if len(actions) > 0 {
		p := plan.Do(w.reason, actions...)
		if w.announce != "" {
			p = p.Then(w.announce, w.record.Operation)
		}
		return p
	}
	p := plan.Wait(api.SwapRunning, "%s", w.waiting)
	p.Soon = w.soon
	return p
}
