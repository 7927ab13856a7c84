package backup

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// maxFinalTries is how many movers are made for one stop.
const maxFinalTries = 5

// final has a member that has stopped copied to the end. The waiting mover gets the signal; if none waits, a new one starts with it.
func (w *work) final(member *api.Member) {
	if pod := w.MemberPod(member.Ordinal); pod == nil || pod.UID != member.Pod || !statefulset.Held(pod) || member.Stopped == nil {
		return // restore handles it
	}
	m := w.moverOf(member)
	signal := signalOf(member)
	if m.waits() && !filled(member) { // it is of a member that was not copied before it stopped
		w.take(member, m.first)
	}
	switch {
	case m.job == nil && len(w.makeTargets(member)) > 0:
		w.do(api.Preparing, w.makeTargets(member)...)
	case m.job == nil:
		w.startMover(member, &signal)
	case m.job.DeletionTimestamp != nil:
		w.waitFor(true, "job %s is being deleted", m.job.Name)
	case m.copied(signal):
		w.verified(member, m)
	case m.failed() && !m.lostLease() && m.notConverged() == nil && !m.refusedOurs(member):
		w.fail(api.CopyFailed, "%s", w.why(member, m))
	case m.ended(): // it ended before the signal, or after another one
		member.Attempt++
		if member.FinalTries++; member.FinalTries >= maxFinalTries {
			w.fail(api.CopyFailed, "%d movers of pod %s-%d ended before the final pass", maxFinalTries, w.Name, member.Ordinal)
			return
		}
		signal = signalOf(member)
		if m.finished() { // for another hold, or without a report
			w.endMovers(member, 0)
			w.copyAnew(member)
			return
		}
		w.startMover(member, &signal)
	case m.waits() && m.pod.Annotations[moverreport.SignalAnnotation] == "":
		w.do(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.SignalAnnotation, signal.Encode()).Actions()...)
	default:
		w.progress(member, m)
		w.waitFor(false, "the final pass of pod %s-%d", w.Name, member.Ordinal)
	}
}

// filled reports whether a mover has taken the member's present targets for its own, and copied to them. In a final pass it completes one
// after the other, and a complete target has no mark of its operation any more.
func filled(member *api.Member) bool {
	return slices.ContainsFunc(member.Claims, func(move api.Move) bool { return !move.Moved && move.Files > 0 })
}

// refusedOurs reports whether the mover has refused a target that an earlier mover of the same stop had completed before it was lost.
func (m mover) refusedOurs(member *api.Member) bool {
	r := m.report()
	return member.Phase == api.MemberFinalPass && filled(member) && r != nil && r.Reason == moverreport.ReasonTargetNotEmpty
}

// signalOf returns the signal of this very stop. It has the time of the stop, so no copy that was made for it can have begun earlier.
func signalOf(member *api.Member) moverreport.Signal {
	return moverreport.Signal{Hold: fmt.Sprintf("%s stopped %s", member.Pod, moment(member.Stopped.Time)), Attempt: member.Attempt}
}

// copyAnew has the claims of a member copied to other volumes.
func (w *work) copyAnew(member *api.Member) {
	toOtherVolumes(member)
	w.do(api.Preparing, w.makeTargets(member)...)
}

// toOtherVolumes has the claims of a member copied to other volumes than before.
func toOtherVolumes(member *api.Member) {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved {
			move.CopyAnew()
		}
	}
}

// verified hands the member to restore: its copies are whole and current.
func (w *work) verified(member *api.Member, m mover) {
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		target := w.TargetClaim(w.record.Operation, move)
		if target == nil || target.Spec.VolumeName == "" || target.DeletionTimestamp != nil ||
			target.CreationTimestamp.After(m.job.CreationTimestamp.Time) { // it was made anew, and is empty
			w.fail(api.ClaimLost, "the temporary claim of %s was deleted while it was being copied", move.Claim)
			return
		}
		move.NewVolume = target.Spec.VolumeName
		move.Digest = verifiedWithoutDigest
	}
	w.take(member, m.final)
	for _, r := range m.final.Claims {
		for i := range member.Claims {
			if member.Claims[i].Template == r.Name && r.Digest != "" {
				member.Claims[i].Digest = r.Digest
			}
		}
	}
	member.Phase, member.Deadline = api.MemberSwapping, operation.Moment(w.Now.Add(w.Settings.SwitchTimeout))
	member.Stalled, member.StalledSince = "", nil
	w.reason, w.announce = api.CopyVerified, events.BackupCompleted
}

// verifiedWithoutDigest stands for a verified copy whose report had no room for the digest.
const verifiedWithoutDigest = "verified"

// moment is a time as an annotation has it.
func moment(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
