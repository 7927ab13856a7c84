package backup

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// startMover creates the mover's Job, unless the limit of parallel copies is reached. It waits for earlier movers of the member to end: two
// movers must never write to one target.
func (w *work) startMover(member *api.Member, signal *moverreport.Signal) {
	w.deleteMovers(member, member.Attempt) // they belong to stops that were lost
	if earlier := w.earlierMover(member); earlier != "" {
		w.WaitFor(true, "pod %s, an earlier mover of pod %s-%d, has not ended", earlier, w.Name, member.Ordinal)
		return
	}
	// A mover with the signal does not wait, because a member is down. If the set wants no member, none is missing, so the limit holds.
	if (signal == nil || !w.WantsAny(w.Record)) && w.countCopies() >= resources.Parallelism(w.Set, w.Settings) {
		w.WaitFor(false, "pod %s-%d waits until the mover of another member has converged", w.Name, member.Ordinal)
		return
	}
	if w.OptionsErr != nil {
		w.fail(api.MoverInvalid, "%v. Correct it", w.OptionsErr)
		return
	}
	mover, err := resize.MoverOf(w.Observed, w.Record, member, resize.MoverSettings{Options: w.Options, Root: w.RootMovers,
		Settings: w.Settings})
	if err != nil {
		w.fail(api.RootMoverNeeded, "%v", err)
		return
	}
	mover.Signal, mover.Refill = signal, signal != nil && targetsHoldData(member)
	mover.WritableSources = mover.WritableSources && signal == nil // after the stop, no other pod mounts the volumes
	mover.SelectsNode = mover.Node == ""
	w.startedMovers++
	w.Do(api.FirstPassRunning, plan.Create(plan.Jobs, resources.MakeMover(mover)))
}

// earlierMover returns the name of a mover's pod that still copies, or will copy, for the member. It is empty if there is none.
func (w *work) earlierMover(member *api.Member) string {
	pods, _ := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	for _, pod := range pods {
		if !statefulset.Done(pod) {
			return pod.Name
		}
	}
	return ""
}

// countCopies returns how many movers make first passes, or copy members of a set that wants none of them, including the movers that this
// plan creates.
func (w *work) countCopies() int {
	n := w.startedMovers
	for i := range w.Record.Members {
		member := &w.Record.Members[i]
		m := w.moverOf(member)
		if m.job == nil || m.ended() {
			continue
		}
		if member.Phase == api.MemberCopying && !m.waits() || member.Phase == api.MemberFinalPass && !w.WantsAny(w.Record) {
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
		moving.DiscardCopies(member)
	}
	member.Attempt++
	member.Pod, member.Node, member.CheckedAt = "", "", nil
	member.Phase = api.MemberCopying
	w.Reason = api.FirstPassRunning
}

// deleteMovers deletes the member's Jobs, except the Job of the kept attempt. Attempts count from 1, so 0 keeps none.
func (w *work) deleteMovers(member *api.Member, kept int) {
	_, jobs := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	if left := moving.DeleteJobs(jobs, api.MoverName(w.Record.Operation, member.Ordinal, kept)); len(left) > 0 {
		w.Do(api.Preparing, left...)
	}
}

// mover is the Job of the member's present attempt, the Job's latest pod, and the reports of the pod's containers.
type mover struct {
	job          *batchv1.Job
	pod          *corev1.Pod
	first, final *moverreport.MemberReport
}

// moverOf returns the mover of the member's present attempt. If there is no Job, all fields are nil.
func (w *work) moverOf(member *api.Member) mover {
	m := mover{}
	pods, jobs := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	for _, job := range jobs {
		if job.Name == api.MoverName(w.Record.Operation, member.Ordinal, member.Attempt) {
			m.job = job
		}
	}
	if m.job == nil {
		return m
	}
	for _, pod := range pods {
		if createdBy(pod, m.job) && (m.pod == nil || m.pod.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			m.pod = pod
		}
	}
	if m.pod != nil {
		m.first = reportOf(m.pod.Status.InitContainerStatuses, moverreport.FirstContainer)
		m.final = reportOf(m.pod.Status.InitContainerStatuses, moverreport.FinalContainer)
	}
	return m
}

// createdBy reports whether the Job is the controller of the pod. An earlier Job with the same name does not count.
func createdBy(pod *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }

// reportOf returns the report in the container's termination message. It returns nil if the container has not ended or the report cannot
// be read.
func reportOf(all []corev1.ContainerStatus, name string) *moverreport.MemberReport {
	for _, c := range all {
		if c.Name != name || c.State.Terminated == nil {
			continue
		}
		if report, err := moverreport.ParseMember([]byte(c.State.Terminated.Message)); err == nil && c.State.Terminated.Message != "" {
			return &report
		}
	}
	return nil
}

// waits reports whether the mover has made its first passes and waits for the member's stop.
func (m mover) waits() bool { return m.pod != nil && m.first != nil && resize.WaitsForStop(m.pod) }

// copied reports whether the mover has made a verified copy for the hold that the signal names. The copy counts only after the kubelet has
// reported the end of the container, because the container cannot write any more. The pod runs on and keeps the volumes attached.
func (m mover) copied(signal moverreport.Signal) bool {
	return m.pod != nil && m.final != nil &&
		m.final.Result == moverreport.ResultCopied && m.final.Signal != nil && *m.final.Signal == signal
}

// ended reports whether the mover will copy nothing more: it has succeeded or failed. Its Job runs on after a copy is finished, until it is
// deleted.
func (m mover) ended() bool {
	return statefulset.JobEnd(m.job).Type != "" || m.final != nil || m.succeeded()
}

// pins reports whether the mover's pod has finished its copy and only keeps the volumes attached.
func (m mover) pins() bool { return m.pod != nil && resize.IsPin(m.pod) }

// succeeded reports whether the final container exited with 0. Its report may be missing.
func (m mover) succeeded() bool {
	return m.pins() || m.pod != nil && m.pod.Status.Phase == corev1.PodSucceeded
}

// finished reports whether the mover has made a verified copy, for the present hold or an earlier one. No mover writes to the volume of
// such a copy again.
func (m mover) finished() bool {
	return m.final != nil && m.final.Result == moverreport.ResultCopied || m.final == nil && m.succeeded()
}

// failed reports whether the Job has failed, or will fail because the mover exited with a code that is not retried.
func (m mover) failed() bool {
	return statefulset.JobEnd(m.job).Type == batchv1.JobFailed ||
		m.final != nil && slices.Contains(moverreport.FinalCodes(), int32(m.final.Code))
}

// report returns the mover's latest report, or nil.
func (m mover) report() *moverreport.MemberReport {
	if m.final != nil {
		return m.final
	}
	return m.first
}

// lostLease reports whether the mover ended because no function renewed the lease.
func (m mover) lostLease() bool {
	r := m.report()
	return r != nil && r.Code == moverreport.CodeLeaseLost
}

// notConverged returns the mover's report if its passes did not converge, otherwise nil.
func (m mover) notConverged() *moverreport.MemberReport {
	if r := m.report(); r != nil && r.Result == moverreport.ResultNotConverged {
		return r
	}
	return nil
}

// outOfMemory reports whether the kernel killed a container of the mover because of its memory use. Such a container leaves no report.
func (m mover) outOfMemory() bool {
	return m.pod != nil && slices.ContainsFunc(slices.Concat(m.pod.Status.InitContainerStatuses, m.pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && c.State.Terminated.Reason == "OOMKilled"
		})
}

// jobFailure returns the reason and the message of the Job's condition Failed. Without a message, it only says that the Job failed.
func jobFailure(job *batchv1.Job) string {
	if end := statefulset.JobEnd(job); end.Type == batchv1.JobFailed && end.Message != "" {
		return end.Reason + ": " + end.Message
	}
	return "job " + job.Name + " failed"
}

// hasStarted reports whether a container of the mover has started. The pod's phase does not tell, since it is Pending until all init
// containers have ended.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == moverreport.FirstContainer && c.State.Waiting == nil
	})
}

// containerStart returns when the running init container started. It is zero if the container does not run.
func containerStart(pod *corev1.Pod, container string) time.Time {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == container && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

// lastContainerEnd returns when the last ended container ended, or the pod's creation if none has ended.
func lastContainerEnd(pod *corev1.Pod) time.Time {
	end := pod.CreationTimestamp.Time
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Terminated != nil {
			end = later(end, c.State.Terminated.FinishedAt.Time)
		}
	}
	return end
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// renewEvery is how often the lease of a waiting mover is renewed. It is well below moverreport.DefaultLease.
const renewEvery = moverreport.DefaultLease / 4

// renewLease renews the lease of the member's mover, if that is due.
func (w *work) renewLease(member *api.Member, m mover) {
	if m.pod == nil || w.Now.Sub(m.leaseRenewedAt(member, w.Now)) < renewEvery {
		return
	}
	w.Do(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.LeaseAnnotation, timestamp(w.Now)).Actions()...)
}

// leaseRenewedAt returns when the mover's lease was last renewed. The first lease of a waiting mover starts with its container, and that
// of a pin with the end of the copy. Nothing is written to the pod at that moment, because it would prolong the stop: the kubelet handles
// one change of a pod a second (kubernetes pkg/kubelet/pod_workers.go, GetNewerThan).
//
// Such a start is a time on the node's clock. It counts only until the first renewal. A start in the future is ignored: the node's clock
// is fast, and the next renewal would come too late.
func (m mover) leaseRenewedAt(member *api.Member, now time.Time) time.Time {
	at, _ := time.Parse(time.RFC3339, m.pod.Annotations[moverreport.LeaseAnnotation])
	if at.After(now) { // a clock was set back
		at = time.Time{}
	}
	start := time.Time{}
	switch sinceStop := member.StoppedAt != nil && at.After(member.StoppedAt.Time); {
	case m.pins() && !sinceStop: // nothing renews the lease in a final pass
		start = lastContainerEnd(m.pod)
	case !m.pins() && at.IsZero():
		start = containerStart(m.pod, moverreport.FinalContainer)
	}
	if start.After(now) {
		return at
	}
	return later(at, start)
}

// timestamp returns a time in the format of annotations.
func timestamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
