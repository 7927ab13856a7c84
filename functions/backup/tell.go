package backup

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// progress stores how far a mover is, and why it cannot go on. It gives the operation up when a stall lasts too long.
func (w *work) progress(member *api.Member, m mover) {
	s := w.stallOf(member, m)
	held := member.Phase == api.MemberFinalPass
	switch {
	case held && s != nil && s.unplaced && member.Node != "" && w.Now.Sub(s.since) > min(noticeStart, s.allowed):
		w.elsewhere(member) // the node of the pod is full, cordoned or gone
		return
	case s.over(w.Now) && s.unplaced && w.unprovisioned(member) != nil:
		move := w.unprovisioned(member)
		w.fail(api.CopyFailed, "no volume was provisioned for the copy of claim %s within %s; look at kubectl describe pvc %s: %s", move.Claim,
			s.allowed, w.record.TargetOf(move), bounded(s.cause()))
		return
	case s.over(w.Now) && s.unplaced && !held && w.record.Strategy == api.StrategyWhole:
		w.endMovers(member, 0) // where the member has stopped, there is room
		member.Attempt++
		member.Pod, member.Stalled, member.StalledSince = "", "", nil
		w.ready(member)
		return
	case s.over(w.Now):
		w.fail(api.CopyFailed, "%s", s.failure(w.Name, member))
		return
	}
	s.note(w.Input, member)
	if line, ok := w.Progress[member.Ordinal]; ok && len(member.Claims) > 0 && w.progressDue(member) {
		first := &member.Claims[0] // the figures of a running mover are of all of its claims
		if line.BytesDone != first.BytesDone {
			first.BytesDone, first.BytesTotal = line.BytesDone, line.BytesTotal
			member.ProgressAt = operation.Moment(w.Now)
		}
	}
	w.waitFor(false, "pod %s-%d is being copied", w.Name, member.Ordinal)
}

// elsewhere has another mover made for a stopped member, on whichever node has room: its pod does not run on the old one any more.
func (w *work) elsewhere(member *api.Member) {
	w.endMovers(member, 0)
	member.Attempt++
	member.Node, member.Stalled, member.StalledSince = "", "", nil
}

// progressDue reports whether the member's progress may be written again.
func (in Input) progressDue(member *api.Member) bool {
	return member.ProgressAt == nil || in.Now.Sub(member.ProgressAt.Time) >= in.Settings.ProgressPeriod
}

// unprovisioned is a claim for whose copy the scheduler has found a node, and the storage no volume; nil if there is none.
func (w *work) unprovisioned(member *api.Member) *api.Move {
	for i := range member.Claims {
		target := w.TargetClaim(w.record.Operation, &member.Claims[i])
		if target != nil && target.Spec.VolumeName == "" && target.Annotations[selectedNode] != "" {
			return &member.Claims[i]
		}
	}
	return nil
}

// selectedNode is where the scheduler tells a provisioner which node it has found
// (kubernetes component-helpers storage/volume, AnnSelectedNode).
const selectedNode = "volume.kubernetes.io/selected-node"

// note stores why the member's mover cannot go on, once that has lasted long enough. The same reason is stored once, with any details: they
// change with every event on a busy cluster. For a Job without a pod and without a known cause, only the time is stored at first.
func (s *stall) note(in Input, member *api.Member) {
	told := s != nil && in.Now.Sub(s.since) > s.notice
	switch {
	case s == nil, !told && (s.firstSeen || s.reason != noPod):
		member.Stalled, member.StalledSince = "", nil
	case !told: // its time runs
	case s.firstSeen && s.reason == noPod:
		member.Stalled, member.StalledSince = "", operation.Moment(in.Now)
	case s.firstSeen:
		member.Stalled, member.StalledSince = bounded(s.cause()), operation.Moment(in.Now)
	case !strings.HasPrefix(member.Stalled, s.reason+": "):
		member.Stalled, member.StalledSince = bounded(s.cause()), operation.Moment(s.since)
	}
}

// maxCause bounds a cause in the record: its text comes from others.
const maxCause = 300

func bounded(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if len(text) <= maxCause {
		return text
	}
	return strings.ToValidUTF8(text[:maxCause], "") + "..."
}

// tellStalls puts the stalls of the members into the operation's reason and message, with an Event about a new one. When no stall is left,
// it replaces the message of the last one.
func (w *work) tellStalls() {
	var stalled []string
	for _, member := range w.record.Members {
		if member.Stalled != "" {
			stalled = append(stalled, fmt.Sprintf("%s (pod %s-%d)", member.Stalled, w.Name, member.Ordinal))
		}
	}
	switch {
	case len(stalled) > 0:
		w.record.Reason, w.record.Message = api.MoverStalled, stalled[0]
		if more := len(stalled) - 1; more > 0 {
			w.record.Message += fmt.Sprintf(". %d more members wait, see status.members", more)
		}
	case w.before.Reason == api.MoverStalled:
		w.record.Reason, w.record.Message = api.CopyRunning, "the claims are being copied"
	}
	if w.record.Reason == api.MoverStalled && w.record.Message != w.before.Message {
		w.notes = append(w.notes, operation.NoteOf(w.Set, w.record, true))
	}
}

// failure is why the copy of the member failed whose mover was stalled for too long.
func (s *stall) failure(set string, member *api.Member) string {
	return fmt.Sprintf("copying the claims of %s-%d failed: its mover could not go on for %s: %s; remove the cause", set, member.Ordinal,
		s.allowed, bounded(s.cause()))
}
