package backup

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Decide is pure. Each call plans the next step only; the executor comes back until there is none.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return plan.Noop(api.SetGone) // restore undoes the operation
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize says so on the set
	}
	if record == nil || record.Phase != api.Moving || record.Set.UID == "" {
		return plan.Noop(api.NotOurPhase)
	}
	if keep := keepForeign(in, record); len(keep) > 0 {
		return plan.Do(api.NotProvisioned, keep...)
	}
	if why, message := hopeless(in, record); why != "" {
		return giveUp(in, record, why, message)
	}
	if in.Journal(record.Operation) == nil {
		return plan.Do(api.Preparing, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, record)))
	}
	w := &work{Input: in, before: record, record: record.Clone()}
	w.advance()
	w.begin()
	return w.plan()
}

// advance takes the next step of each member in a phase of backup's. operation.MemberStates has the phases.
func (w *work) advance() {
	for i := range w.record.Members {
		switch member := &w.record.Members[i]; member.Phase {
		case api.MemberFinalPass: // it is down, so it comes first
			w.final(member)
		case api.MemberWaiting:
			w.watch(member)
		case api.MemberStopping: // its mover is needed as soon as it has stopped, which may take long
			if m := w.moverOf(member); m.job != nil && !m.ended() {
				w.renew(member, m)
			}
		case api.MemberSwapping: // its volumes stay attached, also where it waits long for other members
			if m := w.moverOf(member); m.job != nil && m.pins() && !ended(m.pod) {
				w.renew(member, m)
			}
		case api.MemberCopying:
			w.copying(member)
		}
	}
}

// hopeless says why the operation has to be given up, or nothing.
func hopeless(in Input, record *api.Resize) (api.Reason, string) {
	if problem := disowned(in, record); problem != "" {
		return api.StatusInvalid, fmt.Sprintf("the annotation %s was not written by Drydock: %s. No volume was touched. Find out who wrote it, "+
			"then %s", api.StatusAnnotation, problem, operation.AskAgain(record))
	}
	if operation.Overdue(record, in.Now) {
		return api.DeadlineExceeded, operation.TookTooLong(record, in.Settings.CopyTimeout)
	}
	if in.Rejected != "" {
		return api.Rejected, "the API server refused a step: " + in.Rejected + "; mend the cause, then " + operation.AskAgain(record)
	}
	for _, move := range open(record) {
		if why, message := lostVolumes(in, record, move); why != "" {
			return why, message
		}
	}
	return checkTargets(in, record)
}

// lostVolumes says which of a claim's volumes is gone or in use, or nothing.
func lostVolumes(in Input, record *api.Resize, move *api.Move) (api.Reason, string) {
	if record.IsRollback() && !comesBack(in, record, move) {
		return api.ClaimLost, fmt.Sprintf("volume %s, which claim %s is to get back, is gone, or is not kept for it any more; look at kubectl "+
			"get pv %s", move.NewVolume, move.Claim, move.NewVolume)
	}
	if !owns(in, move) {
		return api.ClaimLost, fmt.Sprintf("claim %s or its volume %s was deleted or replaced during the operation; the volume is kept, "+
			"look at kubectl get pv %s", move.Claim, move.OldVolume, move.OldVolume)
	}
	return "", ""
}

// open returns the claims of members that have not been stopped yet.
func open(record *api.Resize) []*api.Move {
	var moves []*api.Move
	for i := range record.Members {
		switch member := &record.Members[i]; member.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			for j := range member.Claims {
				if !member.Claims[j].Moved {
					moves = append(moves, &member.Claims[j])
				}
			}
		}
	}
	return moves
}

// giveUp hands the operation to restore, which releases the held pods.
func giveUp(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := operation.Revert(record, in.Now, in.Settings.SwitchTimeout, why, message)
	return plan.Do(why, append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))...)
}

// work collects the actions for all members from one reading of the cluster.
type work struct {
	Input
	before, record *api.Resize
	reason         api.Reason
	actions        []plan.Action
	notes          []plan.Action
	announce       string
	waiting        string
	soon           bool
	failed         string // why the operation has to be given up
	failure        api.Reason
	started        int // movers, in this look
}

func (w *work) do(reason api.Reason, actions ...plan.Action) {
	w.reason, w.actions = reason, append(w.actions, actions...)
}

func (w *work) waitFor(soon bool, format string, args ...any) {
	w.waiting, w.soon = fmt.Sprintf(format, args...), w.soon || soon
}

func (w *work) fail(reason api.Reason, format string, args ...any) {
	w.failure, w.failed = reason, fmt.Sprintf(format, args...)
}

// plan returns the collected actions. The record is written first, so that every new object can be found by it.
func (w *work) plan() plan.Plan {
	if w.failed != "" {
		return giveUp(w.Input, w.before, w.failure, w.failed+"; "+operation.AskAgain(w.before))
	}
	w.tellStalls()
	actions := slices.Concat(operation.Store(w.Set, w.record).Actions(), w.actions, w.notes, tellWarnings(w.Input, w.before, w.record))
	if len(actions) > 0 {
		p := plan.Do(api.Reason(orElse(string(w.reason), string(api.Preparing))), actions...)
		if w.announce != "" {
			p = p.Then(w.announce, w.record.Operation)
		}
		return p
	}
	p := plan.Wait(api.CopyRunning, "%s", w.waiting)
	p.Soon = w.soon
	return p
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// begin starts with the members whose turn it is: one in a rolling resize, else all.
func (w *work) begin() {
	if w.record.Strategy != api.StrategyRolling {
		for i := range w.record.Members {
			if member := &w.record.Members[i]; member.Phase == api.MemberPending {
				w.beginWith(member)
			}
		}
		return
	}
	busy := slices.ContainsFunc(w.record.Members, func(m api.Member) bool {
		return m.Phase != api.MemberPending && m.Phase != api.MemberMoved
	})
	if next := resize.NextMember(w.Observed, w.record); next != nil && !busy {
		w.beginWith(next)
	}
}

func (w *work) beginWith(member *api.Member) {
	member.Phase, member.Attempt = api.MemberCopying, max(member.Attempt, 1)
	w.copying(member)
}

// owns reports whether the claim that the record names is still that claim, and bound to the volume that the record names.
func owns(in Input, move *api.Move) bool {
	claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
	return claim != nil && claim.UID == move.UID && claim.DeletionTimestamp == nil && volume != nil && statefulset.Bound(claim, volume)
}

// disowned returns why the record was not written by Drydock for this set; empty if it was. Every user with the right to edit the set can
// write a record, but only Drydock can write a journal. So the id must be the set's own until there is a journal; then the journal must
// name every claim with its volumes.
func disowned(in Input, record *api.Resize) string {
	if in.Journal(record.Operation) == nil {
		return unbegun(in, record)
	}
	written := in.Recorded(record.Operation)
	if written == nil {
		return fmt.Sprintf("ControllerRevision %s cannot be read", api.JournalName(record.Operation))
	}
	for _, move := range record.Moves() {
		if !written.Records(move) {
			return fmt.Sprintf("ControllerRevision %s does not name claim %s on volume %s", api.JournalName(record.Operation), move.Claim,
				move.OldVolume)
		}
	}
	return ""
}

// unbegun returns why the record cannot be that of an operation without a journal; empty if it can.
func unbegun(in Input, record *api.Resize) string {
	if !record.HasIDOf(in.Set.UID) {
		return fmt.Sprintf("%s is not the id of request %q on this StatefulSet", record.Operation, record.Request)
	}
	for _, member := range record.Members {
		if member.Phase != api.MemberPending {
			return fmt.Sprintf("member %d is said to be %s, and ControllerRevision %s does not exist", member.Ordinal, member.Phase,
				api.JournalName(record.Operation))
		}
	}
	return ""
}
