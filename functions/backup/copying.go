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

// copying provisions the new volumes of a member, and has a mover make first passes beside its pod until they have converged.
func (w *work) copying(member *api.Member) {
	if actions := w.holdSources(member); len(actions) > 0 {
		w.do(api.Preparing, actions...)
		return
	}
	if !w.record.Copies() {
		w.ready(member)
		return
	}
	if actions := w.makeTargets(member); len(actions) > 0 || w.failed != "" {
		w.do(api.Preparing, actions...)
		return
	}
	pod := w.MemberPod(member.Ordinal)
	switch {
	case w.cold(member, pod) != "":
		w.endMovers(member, 0)
		member.Pod, member.Node = "", "" // of a pod that it had
		w.ready(member)
	case pod == nil || !statefulset.Started(pod):
		w.waitFor(false, "pod %s-%d does not run yet", w.Name, member.Ordinal)
	case pod.DeletionTimestamp != nil:
		w.waitFor(false, "pod %s is ending", pod.Name)
	default:
		w.copyBeside(member, pod)
	}
}

// cold says why no mover can copy beside the member's pod; empty if one can. Such a member is copied when it has stopped, so its stop
// grows with its data.
func (w *work) cold(member *api.Member, pod *corev1.Pod) string {
	if pod == nil && !w.Wants(member.Ordinal) {
		return "it has no pod"
	}
	if claim := resize.ClaimOfOnePod(w.Observed, member); claim != "" {
		return "ReadWriteOncePod: no second pod may use claim " + claim
	}
	return ""
}

// ready hands a member to restore.
func (w *work) ready(member *api.Member) {
	member.Phase, member.Deadline = api.MemberWaiting, nil
	w.reason, w.announce = api.CopyVerified, events.BackupCompleted
}

// copyBeside makes the member's mover, and follows its reports.
func (w *work) copyBeside(member *api.Member, pod *corev1.Pod) {
	m := w.moverOf(member)
	switch {
	case member.Pod != "" && member.Pod != pod.UID && m.job != nil:
		w.tryAgain(member, m) // the pod was started again, perhaps elsewhere
	case m.job == nil:
		member.Pod, member.Node = pod.UID, pod.Spec.NodeName
		w.startMover(member, nil)
	case m.job.DeletionTimestamp != nil:
		w.waitFor(true, "job %s is being deleted", m.job.Name)
	case m.lostLease() || m.finished(): // finished although its member runs: another process has signalled it
		w.tryAgain(member, m)
	case m.notConverged() != nil:
		r := m.notConverged()
		w.fail(api.NotConverged, "the copies of pod %s do not converge: a final pass would take %.0f s, and %s allows %.0f s. Raise it, or have "+
			"members stopped at a quieter hour with %s", pod.Name, r.ForecastSeconds, api.MaxStopAnnotation, r.MaxStopSeconds, api.CutoverAnnotation)
	case m.failed():
		w.fail(api.CopyFailed, "%s", w.why(member, m))
	case m.waits():
		w.take(member, m.first)
		member.Stalled, member.StalledSince = "", nil
		w.ready(member)
		w.renew(member, m)
	default:
		w.progress(member, m)
	}
}

// startMover makes the Job, unless as many members are copied as may be at once. Two movers never write to one target.
func (w *work) startMover(member *api.Member, signal *moverreport.Signal) {
	w.endMovers(member, member.Attempt) // of stops that were lost
	if before := w.earlierMover(member); before != "" {
		w.waitFor(true, "pod %s, an earlier mover of pod %s-%d, has not ended", before, w.Name, member.Ordinal)
		return
	}
	if signal == nil && w.copyingNow() >= resources.Parallelism(w.Set, w.Settings) {
		w.waitFor(false, "pod %s-%d waits for a mover of another member", w.Name, member.Ordinal)
		return
	}
	if w.OptionsErr != nil {
		w.fail(api.MoverInvalid, "%v", w.OptionsErr)
		return
	}
	mover, err := resize.MoverOf(w.Observed, w.record, member, resize.MoverSettings{Options: w.Options, Root: w.RootMovers,
		Settings: w.Settings})
	if err != nil {
		w.fail(api.RootMoverNeeded, "%v", err)
		return
	}
	mover.Signal, mover.Refill = signal, signal != nil && filled(member)
	mover.First = mover.Node == ""
	w.started++
	w.do(api.WarmCopyRunning, plan.Create(plan.Jobs, resources.MakeMover(mover)))
}

// earlierMover returns the pod of another Job that copies for the member, or will; empty if there is none.
func (w *work) earlierMover(member *api.Member) string {
	pods, _ := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, pod := range pods {
		if !statefulset.Done(pod) {
			return pod.Name
		}
	}
	return ""
}

// copyingNow counts the movers that make first passes.
func (w *work) copyingNow() int {
	n := w.started
	for i := range w.record.Members {
		member := &w.record.Members[i]
		if m := w.moverOf(member); member.Phase == api.MemberCopying && m.job != nil && !m.waits() && !m.ended() {
			n++
		}
	}
	return n
}

// tryAgain has another mover made for the member. If the copy was finished, the new mover gets other volumes: no mover writes to a volume
// with a finished copy.
func (w *work) tryAgain(member *api.Member, m mover) {
	w.endMovers(member, 0)
	if m.finished() {
		toOtherVolumes(member)
	}
	member.Attempt++
	member.Pod, member.Node, member.Checked = "", "", nil
	member.Phase = api.MemberCopying
	w.reason = api.WarmCopyRunning
}

// endMovers deletes the member's Jobs except that of the given attempt.
func (w *work) endMovers(member *api.Member, but int) {
	_, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, job := range jobs {
		if job.DeletionTimestamp == nil && job.Name != api.MoverName(w.record.Operation, member.Ordinal, but) {
			w.do(api.Preparing, plan.Delete(plan.Jobs, job))
		}
	}
}

// watch checks that a member that waits to be stopped has a living mover beside the same pod. While the cutover is shut, which may last for
// days, no mover waits; when it opens, another one brings the copy up to date first.
func (w *work) watch(member *api.Member) {
	switch {
	case resize.GoesLater(w.Observed, w.record, member):
		w.tryAgain(member, w.moverOf(member))
		member.Phase = api.MemberPending
		return
	case !w.record.Copies():
		return
	case resize.LacksFirstPass(w.Observed, member): // the set was scaled up since
		member.Phase, w.reason = api.MemberCopying, api.WarmCopyRunning
		return
	case member.Pod == "":
		return
	}
	m := w.moverOf(member)
	pod := w.MemberPod(member.Ordinal)
	switch {
	case resize.ShutCutover(w.Observed, w.record) != "" && (m.job == nil || !m.finished()):
		w.endMovers(member, 0)
	case pod == nil || pod.UID != member.Pod || m.job == nil || m.ended():
		w.tryAgain(member, m)
	case !m.waits(): // its pod was replaced: that one copies first
		member.Phase, w.reason = api.MemberCopying, api.WarmCopyRunning
	default:
		w.renew(member, m)
	}
}

// renewEvery is how often the lease of a waiting mover is renewed; well below moverreport.DefaultLease.
const renewEvery = moverreport.DefaultLease / 4

// renew renews the lease of the member's mover.
func (w *work) renew(member *api.Member, m mover) {
	if m.pod == nil || w.Now.Sub(m.renewed(member, w.Now)) < renewEvery {
		return
	}
	w.do(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.LeaseAnnotation, moment(w.Now)).Actions()...)
}

// take stores a mover's report of each claim.
func (w *work) take(member *api.Member, report *moverreport.MemberReport) {
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

// why says why a mover has failed. What only root can copy is told with what allows it.
func (w *work) why(member *api.Member, m mover) string {
	report := m.report()
	if report != nil && report.Result == moverreport.ResultConverged { // the final pass was killed, and could not report
		report = nil
	}
	name := fmt.Sprintf("%s-%d", w.Name, member.Ordinal)
	switch {
	case report == nil && m.outOfMemory():
		return fmt.Sprintf("copying the claims of %s failed: the mover was killed for using more memory than its limit (OOMKilled); give it "+
			"more with the annotation %s={resources: {limits: {memory: 4Gi}}}", name, api.MoverAnnotation)
	case report == nil:
		return fmt.Sprintf("copying the claims of %s failed: %s", name, jobMessage(m.job))
	}
	text := fmt.Sprintf("copying the claims of %s failed: %s: %s", name, report.Reason, report.Message)
	if report.Reason == moverreport.ReasonNotFaithful && !w.RootMovers {
		text += fmt.Sprintf("; root can, where it is allowed: kubectl label namespace %s %s=%s", w.Set.Namespace, api.RootMoverLabel,
			api.AllowValue)
	}
	return text
}
