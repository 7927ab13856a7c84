package backup

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/text"
)

// updateProgress stores how far the mover is, and why it is stalled. It fails the operation if a stall lasts too long.
func (w *work) updateProgress(member *api.Member, m mover) {
	s := w.stallOf(member, m)
	stopped := member.Phase == api.MemberFinalPass
	switch {
	case stopped && s != nil && s.unplaced && member.Node != "" && w.Now.Sub(s.since) > min(showStartAfter, s.limit):
		w.placeElsewhere(member) // the pod's node is full, cordoned or gone
		return
	case s.over(w.Now) && s.unplaced && w.unprovisionedClaim(member) != nil:
		move := w.unprovisionedClaim(member)
		w.fail(api.CopyFailed, "no volume was provisioned for the copy of claim %s within %s: %s. Look at kubectl describe pvc %s", move.Claim,
			s.limit, text.Line(s.cause(), maxCause), w.record.TargetOf(move))
		return
	case s.over(w.Now) && s.unplaced && !stopped && w.record.Strategy == api.StrategyWhole:
		w.deleteMovers(member, 0) // the stopped pods will leave room for a mover
		member.Attempt++
		member.Pod, member.Stalled, member.StalledSince = "", "", nil
		w.handToRestore(member)
		return
	case s.over(w.Now):
		w.fail(api.CopyFailed, "%s", s.failureMessage(w.Name, member))
		return
	}
	s.storeIn(w.Input, member)
	if line, ok := w.Progress[member.Ordinal]; ok && len(member.Claims) > 0 && w.progressDue(member) {
		first := &member.Claims[0] // a running mover reports one sum for all its claims
		if line.BytesDone != first.BytesDone {
			first.BytesDone, first.BytesTotal = line.BytesDone, line.BytesTotal
			member.ProgressAt = operation.Moment(w.Now)
		}
	}
	w.waitFor(false, "pod %s-%d is being copied", w.Name, member.Ordinal)
}

// placeElsewhere replaces the mover of a stopped member. The new mover may run on any node. The pod has stopped, so its node is not needed.
func (w *work) placeElsewhere(member *api.Member) {
	w.deleteMovers(member, 0)
	member.Attempt++
	member.Node, member.Stalled, member.StalledSince = "", "", nil
}

// progressDue reports whether the member's progress may be written again: at most once in ProgressPeriod.
func (in Input) progressDue(member *api.Member) bool {
	return member.ProgressAt == nil || in.Now.Sub(member.ProgressAt.Time) >= in.Settings.ProgressPeriod
}

// unprovisionedClaim returns a move whose temporary claim has a selected node but no volume: the provisioner failed. It is nil if there
// is none.
func (w *work) unprovisionedClaim(member *api.Member) *api.Move {
	for i := range member.Claims {
		target := w.TargetClaim(w.record.Operation, &member.Claims[i])
		if target != nil && target.Spec.VolumeName == "" && target.Annotations[selectedNode] != "" {
			return &member.Claims[i]
		}
	}
	return nil
}

// selectedNode is the annotation that tells a provisioner which node the scheduler has selected
// (kubernetes component-helpers storage/volume, AnnSelectedNode).
const selectedNode = "volume.kubernetes.io/selected-node"

// storeIn stores the stall with the member, once it has lasted long enough to be shown. A stall with the same reason is stored once only,
// because its details change with every event on a busy cluster. For a Job without a pod and without a known cause, only the time is
// stored at first.
func (s *stall) storeIn(in Input, member *api.Member) {
	shown := s != nil && in.Now.Sub(s.since) > s.showAfter
	switch {
	case s == nil, !shown && (s.firstSeen || s.reason != noPod):
		member.Stalled, member.StalledSince = "", nil
	case !shown: // the stored time stays
	case s.firstSeen && s.reason == noPod:
		member.Stalled, member.StalledSince = "", operation.Moment(in.Now)
	case s.firstSeen:
		member.Stalled, member.StalledSince = text.Line(s.cause(), maxCause), operation.Moment(in.Now)
	case !strings.HasPrefix(member.Stalled, s.reason+": "):
		member.Stalled, member.StalledSince = text.Line(s.cause(), maxCause), operation.Moment(s.since)
	}
}

// maxCause bounds the cause of a stall in the record, in bytes. Its text comes from other programs.
const maxCause = 300

// reportStalls puts the members' stalls into the operation's reason and message, and adds an Event if the message is new. When no stall is
// left, it replaces the message of the last stall.
func (w *work) reportStalls() {
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
			w.record.Message += fmt.Sprintf(". %d more members are stalled; see status.members", more)
		}
	case w.before.Reason == api.MoverStalled:
		w.record.Reason, w.record.Message = api.CopyRunning, "the claims are being copied"
	}
	if w.record.Reason == api.MoverStalled && w.record.Message != w.before.Message {
		w.notes = append(w.notes, operation.NoteOf(w.Set, w.record, true))
	}
}

// failureMessage says that the member's mover was stalled for too long, and why.
func (s *stall) failureMessage(set string, member *api.Member) string {
	return fmt.Sprintf("copying the claims of pod %s-%d failed: its mover was stalled for %s: %s. Remove the cause", set, member.Ordinal,
		s.limit, text.Line(s.cause(), maxCause))
}
