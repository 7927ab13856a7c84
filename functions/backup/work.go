package backup

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
)

// work collects the actions for all members from one observation.
type work struct {
	Input
	before, record *api.Resize
	reason         api.Reason
	actions        []plan.Action
	notes          []plan.Action
	announce       string
	waiting        string
	soon           bool
	failMessage    string // why the operation must be reverted; empty if it can continue
	failReason     api.Reason
	needsRequest   bool // a retry would fail again: only another request helps
	startedMovers  int  // movers that this plan creates
}

func (w *work) add(reason api.Reason, actions ...plan.Action) {
	w.reason, w.actions = reason, append(w.actions, actions...)
}

func (w *work) waitFor(soon bool, format string, args ...any) {
	w.waiting, w.soon = fmt.Sprintf(format, args...), w.soon || soon
}

// fail has the operation reverted. The message ends with the remedy, an imperative: the request for a retry follows it.
func (w *work) fail(reason api.Reason, format string, args ...any) {
	w.failReason, w.failMessage = reason, fmt.Sprintf(format, args...)
}

// link returns a link between an object and a claim of the operation.
func (w *work) link(role api.Role, claim string) api.Link {
	return api.Link{Operation: w.record.Operation, Role: role, Namespace: w.Set.Namespace, Set: w.record.Set, Claim: claim}
}

// handToRestore hands the member to restore, which stops it.
func (w *work) handToRestore(member *api.Member) {
	member.Phase, member.Deadline = api.MemberWaiting, nil
	w.reason, w.announce = api.CopyVerified, events.BackupCompleted
}
