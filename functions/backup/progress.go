package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/text"
)

// watch says how far movers are, and what delays them.
type watch struct{ *work }

func (w *work) watch() watch { return watch{w} }

// updateProgress stores how far the mover is, and why it is stalled. It fails the operation if a stall lasts too long.
func (p watch) updateProgress(member *api.Member, m mover) {
	s := p.stallOf(member, m)
	stopped := member.Phase == api.MemberFinalPass
	switch {
	case stopped && s != nil && s.unplaced && member.Node != "" && p.Now.Sub(s.since) > min(showStartAfter, s.limit):
		p.placeElsewhere(member) // the pod's node is full, cordoned or gone
		return
	case s.over(p.Now) && s.unplaced && p.unprovisionedClaim(member) != nil:
		move := p.unprovisionedClaim(member)
		p.fail(api.CopyFailed, "no volume was provisioned for the copy of claim %s within %s: %s. Look at kubectl describe pvc -n %s %s",
			move.Claim, s.limit, text.Line(s.cause(), maxCause), p.Set.Namespace, p.Record.TargetOf(move))
		return
	case s.over(p.Now) && s.unplaced && !stopped && p.Record.Strategy == api.StrategyWhole:
		p.deleteMovers(member, 0) // the stopped pods will leave room for a mover
		member.Attempt++
		member.Pod, member.Stalled, member.StalledSince = "", "", nil
		p.handToRestore(member)
		return
	case s.over(p.Now):
		p.fail(api.CopyFailed, "%s", s.failureMessage(p.Name, member))
		return
	}
	s.storeIn(p.Input, member)
	p.storeProgress(member)
	p.WaitFor(p.awaitsFirstProgress(member, m.pod), "pod %s-%d is being copied", p.Name, member.Ordinal)
}

// mostBytes is more than a volume can have. Larger numbers are forged, and their sum over the claims would overflow.
const mostBytes = 1 << 56

// storeProgress stores how many bytes of the member's claims are copied. The mover's line is about one claim; the claims before it are
// copied. The counts never fall, although a later pass and the verification count from 0 again.
func (p watch) storeProgress(member *api.Member) {
	line, ok := p.Progress[member.Ordinal]
	if !ok || !p.progressDue(member) || line.BytesDone < 0 || line.BytesDone > line.BytesTotal ||
		line.BytesTotal > mostBytes {
		return
	}
	at := slices.IndexFunc(member.Claims, func(m api.Move) bool { return m.Template == line.Claim })
	if at < 0 {
		return
	}
	changed := false
	for i := range member.Claims[:at] {
		move := &member.Claims[i]
		changed = changed || move.BytesDone != move.BytesTotal
		move.BytesDone = move.BytesTotal
	}
	done, move := line.BytesDone, &member.Claims[at]
	if line.Phase == moverreport.PhaseVerify {
		done = line.BytesTotal // everything is copied
	}
	switch {
	case done > move.BytesDone:
		move.BytesDone, move.BytesTotal, changed = done, line.BytesTotal, true
	case line.Phase == moverreport.PhaseVerify || done < move.BytesDone:
		changed = true // only the time of the report, so that not every event reads the log
	}
	if changed {
		member.ProgressAt = operation.Moment(p.Now)
	}
}

// firstProgressWait is how long a started mover may take until its first progress is stored. The next tick may be a minute away.
const firstProgressWait = 5 * time.Second

// awaitsFirstProgress reports whether the mover has just started, and no member shows progress yet.
func (p watch) awaitsFirstProgress(member *api.Member, pod *corev1.Pod) bool {
	if member.Phase != api.MemberCopying || pod == nil ||
		slices.ContainsFunc(p.Record.Members, func(m api.Member) bool { return m.ProgressAt != nil }) {
		return false
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == moverreport.FirstContainer && c.State.Running != nil {
			return p.Now.Sub(c.State.Running.StartedAt.Time).Abs() < firstProgressWait
		}
	}
	return false
}

// placeElsewhere replaces the mover of a stopped member. The new mover may run on any node. The pod has stopped, so its node is not needed.
func (p watch) placeElsewhere(member *api.Member) {
	p.deleteMovers(member, 0)
	member.Attempt++
	member.Node, member.Stalled, member.StalledSince = "", "", nil
}

// progressDue reports whether the member's progress may be written again: at most once in ProgressPeriod.
func (in Input) progressDue(member *api.Member) bool {
	return member.ProgressAt == nil || in.Now.Sub(member.ProgressAt.Time) >= in.Settings.ProgressPeriod
}

// unprovisionedClaim returns a move whose temporary claim has a selected node but no volume: the provisioner failed. It is nil if there
// is none.
func (p watch) unprovisionedClaim(member *api.Member) *api.Move {
	for i := range member.Claims {
		target := p.TargetClaim(p.Record.Operation, &member.Claims[i])
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
func (p watch) reportStalls() {
	wasStalled := slices.ContainsFunc(p.Before.Members, func(m api.Member) bool { return m.Stalled != "" })
	var stalled []string
	for i := range p.Record.Members {
		member := &p.Record.Members[i]
		if member.Phase != api.MemberCopying && member.Phase != api.MemberFinalPass { // restore has it now
			member.Stalled, member.StalledSince = "", nil
		}
		if member.Stalled != "" {
			stalled = append(stalled, fmt.Sprintf("%s (pod %s-%d)", member.Stalled, p.Name, member.Ordinal))
		}
	}
	switch {
	case len(stalled) > 0:
		message := stalled[0]
		if more := len(stalled) - 1; more > 0 {
			message += fmt.Sprintf(". %d more members are stalled; see status.members", more)
		}
		if message == p.Before.Message {
			p.Record.Reason, p.Record.Message = api.MoverStalled, message
			return
		}
		p.Report(p.Set, true, api.MoverStalled, "%s", message)
	case wasStalled && p.Record.Message == p.Before.Message:
		p.Record.Reason, p.Record.Message = api.CopyRunning, "the claims are being copied"
	}
}

// failureMessage says that the member's mover was stalled for too long, and why.
func (s *stall) failureMessage(set string, member *api.Member) string {
	return fmt.Sprintf("copying the claims of pod %s-%d failed: its mover was stalled for %s: %s. Remove the cause", set, member.Ordinal,
		s.limit, text.Line(s.cause(), maxCause))
}

// Limits for the warnings in a record, so that the annotation stays small. The log of the mover's pod has all warnings.
const (
	warningBytes    = 300      // for one warning
	allWarningBytes = 24 << 10 // for all warnings of a record
)

const moreWarnings = "not all warnings are listed. Read the others in the log of the mover's pod"

// addWarnings adds the mover's warnings to the claim's warnings in the record, without duplicates. omitted is the number of warnings that
// the mover's report lacks. If warnings are omitted or exceed the limit, addWarnings adds a warning that there are more.
func addWarnings(record *api.Resize, move *api.Move, warnings []string, omitted int) {
	if omitted > 0 {
		warnings = append(slices.Clone(warnings), moreWarnings)
	}
	room := allWarningBytes / max(len(record.Moves()), 1)
	for _, have := range move.Warnings {
		room -= len(have)
	}
	for _, warning := range warnings {
		warning = text.Clip(warning, warningBytes)
		if slices.Contains(move.Warnings, warning) {
			continue
		}
		if room -= len(warning); room < 0 {
			warning = moreWarnings
		}
		if !slices.Contains(move.Warnings, warning) {
			move.Warnings = append(slices.Clip(move.Warnings), warning) // Clip: a clone of the record may share the array
		}
	}
}

// reportWarnings makes a Warning Event on the set of each warning of a claim that is new in the record.
func (p watch) reportWarnings() {
	for _, move := range p.Record.Moves() {
		known := p.Before.Move(move.Claim)
		for _, text := range move.Warnings {
			if known == nil || !slices.Contains(known.Warnings, text) {
				p.Event(p.Set, true, api.CopyWarning, "copying claim %s: %s", move.Claim, text)
			}
		}
	}
}
