package backup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Input is everything that Decide considers.
type Input struct {
	moving.Input
	RootMovers bool
	// Options are the user's options for movers. OptionsErr is set if they cannot be read.
	Options    resources.MoverOptions
	OptionsErr error
	// Progress is the latest progress of running movers, by the ordinal of their member. Moved is its time.
	Progress map[int]moverreport.Progress
	Moved    map[int]time.Time
	// Warnings are the latest Warning Events about Jobs without a pod and pods that do not start, by the object's name.
	Warnings map[string]Warning
	// Unclaimed are the cluster's volumes without a claim. They are read only before a temporary claim is created.
	Unclaimed []*corev1.PersistentVolume
}

// Warning is the content of a Kubernetes Event of type Warning.
type Warning struct {
	Reason, Message string
	At              time.Time
}

// Decide plans the next step only. The executor calls it again until there is none. Decide is pure.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return plan.Noop(api.SetGone) // restore undoes the operation
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize reports it on the set
	}
	if record == nil || record.Phase != api.Moving || record.Set.UID == "" {
		return plan.Noop(api.NotOurPhase)
	}
	if retain := retainForeignTargets(in, record); len(retain) > 0 {
		return plan.Do(api.NotProvisioned, retain...)
	}
	if reason, message := revertReason(in, record); reason != "" {
		return moving.Revert(in.Input, record, reason, message)
	}
	if in.Journal(record.Operation) == nil {
		return plan.Do(api.Preparing, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, record)))
	}
	w := &work{Input: in, Work: moving.Begin(record)}
	w.stepMembers()
	w.startMembers()
	return w.plan()
}

// stepMembers plans the next step of each member whose phase belongs to backup. The phases are listed in operation.MemberStates.
func (w *work) stepMembers() {
	for i := range w.Record.Members {
		switch member := &w.Record.Members[i]; member.Phase {
		case api.MemberFinalPass: // the member is down, so it comes first
			w.stepFinalPass(member)
		case api.MemberWaiting:
			w.firstPasses().stepWaiting(member)
		case api.MemberStopping: // the stop may take long, and the mover is needed as soon as it is over
			if m := w.moverOf(member); m.job != nil && !m.ended() {
				w.renewLease(member, m)
			}
		case api.MemberSwapping: // keeps the volumes attached, also while the member waits for others
			if m := w.moverOf(member); m.job != nil && m.pins() && !statefulset.Done(m.pod) {
				w.renewLease(member, m)
			}
		case api.MemberCopying:
			if !w.Record.TurnReturned {
				w.firstPasses().stepCopying(member)
			}
		}
	}
}

// revertReason returns why the operation must be reverted, as a reason and a message. Both are empty if it can continue.
func revertReason(in Input, record *api.Resize) (api.Reason, string) {
	if message := moving.Forged(in.Observed, record); message != "" {
		return api.StatusInvalid, message
	}
	if operation.Overdue(record, in.Now) {
		return api.DeadlineExceeded, operation.TookTooLong(in.Set.Namespace, record, in.Settings.CopyTimeout)
	}
	if in.Rejected != "" {
		return api.Rejected, fmt.Sprintf("the API server rejected a write: %s. Fix the cause, then %s", in.Rejected,
			operation.HowToRetry(in.Set.Namespace, record))
	}
	for _, move := range movesBeforeStop(record) {
		if reason, message := volumeProblem(in, record, move); reason != "" {
			return reason, message
		}
	}
	return targetProblem(in, record)
}

// volumeProblem returns a reason and a message if one of the claim's volumes is gone or in use. Both are empty otherwise.
func volumeProblem(in Input, record *api.Resize, move *api.Move) (api.Reason, string) {
	if record.IsRollback() && !oldVolumeAvailable(in, record, move) {
		return api.ClaimLost, fmt.Sprintf("old volume %s of claim %s is gone, in use, or retained for another claim. Look at kubectl get pv %s",
			move.NewVolume, move.Claim, move.NewVolume)
	}
	if !sourceUnchanged(in, move) {
		return api.ClaimLost, fmt.Sprintf("claim %s or its volume %s was deleted or replaced during the operation. "+
			"Look at kubectl get pv %s", move.Claim, move.OldVolume, move.OldVolume)
	}
	return "", ""
}

// plan returns the collected steps, or gives the operation up.
func (w *work) plan() plan.Plan {
	if w.failMessage != "" {
		message := w.failMessage
		if !w.needsRequest {
			message += ", then " + operation.HowToRetry(w.Set.Namespace, w.Before)
		}
		return moving.Revert(w.Input.Input, w.Before, w.failReason, message)
	}
	w.watch().reportStalls()
	w.watch().reportWarnings()
	w.Reason = cmp.Or(w.Reason, api.Preparing)
	return w.Plan(w.Set, api.CopyRunning)
}

// startMembers starts the pending members: one at a time in a rolling resize, otherwise all.
func (w *work) startMembers() {
	if w.Record.TurnReturned {
		return
	}
	if w.Record.Strategy != api.StrategyRolling {
		for i := range w.Record.Members {
			if member := &w.Record.Members[i]; member.Phase == api.MemberPending {
				w.startMember(member)
			}
		}
		return
	}
	busy := slices.ContainsFunc(w.Record.Members, func(m api.Member) bool {
		return m.Phase != api.MemberPending && m.Phase != api.MemberMoved
	})
	if next := resize.NextMember(w.Observed, w.Record); next != nil && !busy {
		w.startMember(next)
	}
}

func (w *work) startMember(member *api.Member) {
	member.Phase, member.Attempt = api.MemberCopying, max(member.Attempt, 1)
	w.firstPasses().stepCopying(member)
}

// work collects the steps of all members.
type work struct {
	Input
	moving.Work
	failMessage   string // why the operation must be reverted; empty if it can continue
	failReason    api.Reason
	needsRequest  bool // a retry would fail again: only another request helps
	startedMovers int  // movers that this plan creates
}

// fail has the operation reverted. The message ends with the remedy, an imperative: the request for a retry follows it.
func (w *work) fail(reason api.Reason, format string, args ...any) {
	w.failReason, w.failMessage = reason, fmt.Sprintf(format, args...)
}

// handToRestore hands the member to restore, which stops it.
func (w *work) handToRestore(member *api.Member) {
	member.Phase, member.Deadline = api.MemberWaiting, nil
	w.Reason, w.Announce = api.CopyVerified, events.BackupCompleted
}
