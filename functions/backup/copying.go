package backup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// stepCopying provisions the member's new volumes. Then a mover makes first passes beside the member's pod until they converge.
func (w *work) stepCopying(member *api.Member) {
	if actions := w.retainSources(member); len(actions) > 0 {
		w.add(api.Preparing, actions...)
		return
	}
	if !w.record.Copies() {
		w.handToRestore(member)
		return
	}
	if actions := w.createTargets(member); len(actions) > 0 || w.failMessage != "" {
		w.add(api.Preparing, actions...)
		return
	}
	pod := w.MemberPod(member.Ordinal)
	switch {
	case w.noMoverReason(member, pod) != "":
		w.deleteMovers(member, 0)
		member.Pod, member.Node = "", "" // the recorded pod, if any, is gone
		w.handToRestore(member)
	case pod == nil || !statefulset.Started(pod):
		w.waitFor(false, "pod %s-%d is not running yet", w.Name, member.Ordinal)
	case pod.DeletionTimestamp != nil:
		w.waitFor(false, "pod %s is terminating", pod.Name)
	default:
		w.copyBesidePod(member, pod)
	}
}

// noMoverReason returns why no mover can copy beside the member's pod. It is empty if a mover can. A member without a mover is copied after
// it has stopped, so the time of its stop grows with its data.
func (w *work) noMoverReason(member *api.Member, pod *corev1.Pod) string {
	if pod == nil && !w.Wants(member.Ordinal) {
		return "it has no pod"
	}
	if claim := resize.SinglePodClaim(w.Observed, member); claim != "" {
		return "ReadWriteOncePod: no second pod may use claim " + claim
	}
	return ""
}

// handToRestore hands the member to restore, which stops it.
func (w *work) handToRestore(member *api.Member) {
	member.Phase, member.Deadline = api.MemberWaiting, nil
	w.reason, w.announce = api.CopyVerified, events.BackupCompleted
}

// copyBesidePod creates the member's mover and acts on its reports.
func (w *work) copyBesidePod(member *api.Member, pod *corev1.Pod) {
	m := w.moverOf(member)
	switch {
	case member.Pod != "" && member.Pod != pod.UID && m.job != nil:
		w.replaceMover(member, m) // the pod was replaced and may be on another node
	case m.job == nil:
		member.Pod, member.Node = pod.UID, pod.Spec.NodeName
		w.startMover(member, nil)
	case m.job.DeletionTimestamp != nil:
		w.waitFor(true, "job %s is being deleted", m.job.Name)
	case m.lostLease() || m.finished(): // finished although the member runs: another process signalled the mover
		w.replaceMover(member, m)
	case m.notConverged() != nil:
		r := m.notConverged()
		w.fail(api.NotConverged, "the copy of pod %s does not converge: the final pass would take %.0f s, but %s allows %.0f s. "+
			"Raise that limit, or choose a quieter time for the stop with %s", pod.Name, r.ForecastSeconds, api.MaxStopAnnotation,
			r.MaxStopSeconds, api.CutoverAnnotation)
	case m.failed():
		w.fail(api.CopyFailed, "%s", w.copyFailure(member, m))
	case m.waits():
		w.storeReport(member, m.first)
		member.Stalled, member.StalledSince = "", nil
		w.handToRestore(member)
		w.renewLease(member, m)
	default:
		w.updateProgress(member, m)
	}
}

// startMover creates the mover's Job, unless the limit of parallel copies is reached. It waits for earlier movers of the member to end: two
// movers must never write to one target.
func (w *work) startMover(member *api.Member, signal *moverreport.Signal) {
	w.deleteMovers(member, member.Attempt) // they belong to stops that were lost
	if earlier := w.earlierMover(member); earlier != "" {
		w.waitFor(true, "pod %s, an earlier mover of pod %s-%d, has not ended", earlier, w.Name, member.Ordinal)
		return
	}
	if signal == nil && w.countFirstPasses() >= resources.Parallelism(w.Set, w.Settings) {
		w.waitFor(false, "pod %s-%d waits until the mover of another member has converged", w.Name, member.Ordinal)
		return
	}
	if w.OptionsErr != nil {
		w.fail(api.MoverInvalid, "%v. Correct it", w.OptionsErr)
		return
	}
	mover, err := resize.MoverOf(w.Observed, w.record, member, resize.MoverSettings{Options: w.Options, Root: w.RootMovers,
		Settings: w.Settings})
	if err != nil {
		w.fail(api.RootMoverNeeded, "%v", err)
		return
	}
	mover.Signal, mover.Refill = signal, signal != nil && targetsHoldData(member)
	mover.SelectsNode = mover.Node == ""
	w.startedMovers++
	w.add(api.WarmCopyRunning, plan.Create(plan.Jobs, resources.MakeMover(mover)))
}

// earlierMover returns the name of a mover's pod that still copies, or will copy, for the member. It is empty if there is none.
func (w *work) earlierMover(member *api.Member) string {
	pods, _ := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, pod := range pods {
		if !statefulset.Done(pod) {
			return pod.Name
		}
	}
	return ""
}

// countFirstPasses returns how many movers make first passes, including the movers that this plan creates.
func (w *work) countFirstPasses() int {
	n := w.startedMovers
	for i := range w.record.Members {
		member := &w.record.Members[i]
		if m := w.moverOf(member); member.Phase == api.MemberCopying && m.job != nil && !m.waits() && !m.ended() {
			n++
		}
	}
	return n
}

// replaceMover deletes the member's mover so that a new one is created. If the old mover finished its copy, the new one gets new volumes:
// no mover writes to a volume that holds a finished copy.
func (w *work) replaceMover(member *api.Member, m mover) {
	w.deleteMovers(member, 0)
	if m.finished() {
		discardTargets(member)
	}
	member.Attempt++
	member.Pod, member.Node, member.CheckedAt = "", "", nil
	member.Phase = api.MemberCopying
	w.reason = api.WarmCopyRunning
}

// deleteMovers deletes the member's Jobs, except the Job of the kept attempt. Attempts count from 1, so 0 keeps none.
func (w *work) deleteMovers(member *api.Member, kept int) {
	_, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, job := range jobs {
		if job.DeletionTimestamp == nil && job.Name != api.MoverName(w.record.Operation, member.Ordinal, kept) {
			w.add(api.Preparing, plan.Delete(plan.Jobs, job))
		}
	}
}

// stepWaiting checks that a live mover waits beside the pod of a member that is to be stopped. While the cutover is shut, which may take
// days, no mover waits. When it opens, a new mover first brings the copy up to date.
func (w *work) stepWaiting(member *api.Member) {
	switch {
	case resize.ShouldYield(w.Observed, w.record, member):
		w.replaceMover(member, w.moverOf(member))
		member.Phase = api.MemberPending
		return
	case !w.record.Copies():
		return
	case resize.LacksFirstPass(w.Observed, member): // the set was scaled up since then
		member.Phase, w.reason = api.MemberCopying, api.WarmCopyRunning
		return
	case member.Pod == "":
		return
	}
	m := w.moverOf(member)
	pod := w.MemberPod(member.Ordinal)
	switch {
	case resize.CutoverObstacle(w.Observed, w.record) != "" && (m.job == nil || !m.finished()):
		w.deleteMovers(member, 0)
	case pod == nil || pod.UID != member.Pod || m.job == nil || m.ended():
		w.replaceMover(member, m)
	case !m.waits(): // the mover's pod was replaced, and the new pod makes first passes
		member.Phase, w.reason = api.MemberCopying, api.WarmCopyRunning
	default:
		w.renewLease(member, m)
	}
}

// renewEvery is how often the lease of a waiting mover is renewed. It is well below moverreport.DefaultLease.
const renewEvery = moverreport.DefaultLease / 4

// renewLease renews the lease of the member's mover, if that is due.
func (w *work) renewLease(member *api.Member, m mover) {
	if m.pod == nil || w.Now.Sub(m.leaseRenewedAt(member, w.Now)) < renewEvery {
		return
	}
	w.add(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.LeaseAnnotation, timestamp(w.Now)).Actions()...)
}

// storeReport stores a mover's report with each of the member's claims.
func (w *work) storeReport(member *api.Member, report *moverreport.MemberReport) {
	if report == nil {
		return
	}
	if report.ForecastSeconds > 0 {
		member.Forecast = report.ForecastSeconds
	}
	for _, r := range report.Claims {
		for i := range member.Claims {
			move := &member.Claims[i]
			if move.Template != r.Name {
				continue
			}
			move.BytesDone, move.BytesTotal, move.Files = r.Bytes, r.Bytes, r.Files
			if r.TrustedBytes > 0 {
				move.BytesTrusted = r.TrustedBytes
			}
			addWarnings(w.record, move, r.Warnings, r.Omitted)
		}
	}
	member.ProgressAt = nil
}

// copyFailure describes why the mover failed, and the remedy. If only root can copy a file, it names the label that allows it.
func (w *work) copyFailure(member *api.Member, m mover) string {
	report := m.report()
	if report != nil && report.Result == moverreport.ResultConverged { // the final pass was killed before it could report
		report = nil
	}
	problem, remedy := "", "Fix the cause"
	switch {
	case report == nil && m.outOfMemory():
		problem = "the mover was killed for using more memory than its limit (OOMKilled)"
		remedy = fmt.Sprintf("Raise the limit with the annotation %s={resources: {limits: {memory: 4Gi}}}", api.MoverAnnotation)
	case report == nil:
		problem, remedy = jobFailure(m.job), "Look at kubectl describe job "+m.job.Name
	case report.Reason == moverreport.ReasonNotFaithful && !w.RootMovers:
		problem = fmt.Sprintf("%s: %s", report.Reason, report.Message)
		remedy = fmt.Sprintf("Allow a mover that runs as root with: kubectl label namespace %s %s=%s", w.Set.Namespace, api.RootMoverLabel,
			api.AllowValue)
	default:
		problem = fmt.Sprintf("%s: %s", report.Reason, report.Message)
	}
	return fmt.Sprintf("copying the claims of pod %s-%d failed: %s. %s", w.Name, member.Ordinal, problem, remedy)
}
