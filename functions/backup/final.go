package backup

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// maxFinalTries is how many movers are created for one stop.
const maxFinalTries = 5

// stepFinalPass completes the copy of a stopped member. It signals the waiting mover. If none waits, it starts a new mover with the signal.
func (w *work) stepFinalPass(member *api.Member) {
	if pod := w.MemberPod(member.Ordinal); pod == nil || pod.UID != member.Pod || !statefulset.Held(pod) || member.StoppedAt == nil {
		return // restore handles it
	}
	m := w.moverOf(member)
	signal := signalOf(member)
	if m.waits() && !targetsHoldData(member) { // a mover that was started after the stop
		w.firstPasses().storeReport(member, m.first)
	}
	switch {
	case m.job == nil && len(w.createTargets(member)) > 0:
		w.Do(api.Preparing, w.createTargets(member)...)
	case m.job == nil:
		w.startMover(member, &signal)
	case m.job.DeletionTimestamp != nil:
		w.WaitFor(true, "job %s is being deleted", m.job.Name)
	case m.copied(signal):
		w.completeFinalPass(member, m)
	case m.failed() && !m.lostLease() && m.notConverged() == nil && !m.refusedOwnTarget(member):
		w.fail(api.CopyFailed, "%s", w.firstPasses().copyFailure(member, m))
	case m.ended(): // before this signal, or after a signal for another stop
		member.Attempt++
		if member.FinalTries++; member.FinalTries >= maxFinalTries {
			w.fail(api.CopyFailed, "%d movers of pod %s-%d ended before the final pass. Find out why in kubectl get events -n %s", maxFinalTries,
				w.Name, member.Ordinal, w.Set.Namespace)
			return
		}
		signal = signalOf(member)
		if m.finished() { // a copy for another hold, or a copy without a report
			w.deleteMovers(member, 0)
			w.copyToNewVolumes(member)
			return
		}
		w.startMover(member, &signal)
	case m.waits() && m.pod.Annotations[moverreport.SignalAnnotation] == "":
		w.Do(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.SignalAnnotation, signal.Encode()).Actions()...)
	default:
		w.watch().updateProgress(member, m)
		w.WaitFor(false, "the final pass of pod %s-%d is running", w.Name, member.Ordinal)
	}
}

// signalOf returns the signal of this very stop. It contains the time of the stop, so a copy made for it cannot have started before the
// stop.
func signalOf(member *api.Member) moverreport.Signal {
	return moverreport.Signal{Hold: fmt.Sprintf("%s stopped %s", member.Pod, timestamp(member.StoppedAt.Time)), Attempt: member.Attempt}
}

// copyToNewVolumes abandons the member's targets and creates new ones.
func (w *work) copyToNewVolumes(member *api.Member) {
	moving.DiscardCopies(member)
	w.Do(api.Preparing, w.createTargets(member)...)
}

// completeFinalPass hands the member to restore, because its copies are complete and verified.
func (w *work) completeFinalPass(member *api.Member, m mover) {
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		target := w.TargetClaim(w.Record.Operation, move)
		if target == nil || target.Spec.VolumeName == "" || target.DeletionTimestamp != nil || !copiesTo(m.job, target) {
			w.fail(api.ClaimLost, "the temporary claim for the copy of claim %s was deleted during the copy. Find out who deleted it", move.Claim)
			return
		}
		move.NewVolume = target.Spec.VolumeName
		move.Verified = true
	}
	w.firstPasses().storeReport(member, m.final)
	member.Phase, member.Deadline = api.MemberSwapping, operation.Moment(w.Now.Add(w.Settings.SwapTimeout))
	member.Stalled, member.StalledSince = "", nil
	w.Reason, w.Announce = api.CopyVerified, events.BackupCompleted
}

// copiesTo reports whether the mover was created for this very claim. A claim that was created again later has the same name, and is empty.
func copiesTo(job *batchv1.Job, target *corev1.PersistentVolumeClaim) bool {
	link, err := api.LoadLink(job)
	return err == nil && link != nil && link.Claims[target.Name] == target.UID
}
