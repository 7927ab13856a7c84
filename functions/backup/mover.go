package backup

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resize"
)

// mover is the Job of a member's present attempt, with its latest pod and the reports of its containers.
type mover struct {
	job          *batchv1.Job
	pod          *corev1.Pod
	first, final *moverreport.MemberReport
}

// moverOf returns the mover of the member's present attempt. Its job is nil if there is none.
func (w *work) moverOf(member *api.Member) mover {
	m := mover{}
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, job := range jobs {
		if job.Name == api.MoverName(w.record.Operation, member.Ordinal, member.Attempt) {
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

// createdBy reports whether this very Job created the pod. An earlier Job may have had the same name.
func createdBy(pod *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }

// reportOf returns the report in the container's termination message. It is nil if the container has not ended, or left no readable report.
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

// waits reports whether the mover has made its first passes and waits beside the member.
func (m mover) waits() bool { return m.pod != nil && m.first != nil && resize.WaitsForStop(m.pod) }

// copied reports whether the mover has made a verified copy for this very hold. The copy counts only after the kubelet has reported that
// the container ended, because then it can no longer write. The pod stays and keeps the volumes attached.
func (m mover) copied(signal moverreport.Signal) bool {
	return m.pod != nil && m.final != nil &&
		m.final.Result == moverreport.ResultCopied && m.final.Signal != nil && *m.final.Signal == signal
}

// ended reports whether the mover has finished its work, with or without success.
func (m mover) ended() bool {
	return jobResult(m.job) != "" || m.final != nil || m.succeeded()
}

// pins reports whether the pod's copy succeeded, so that the pod now only keeps the volumes attached.
func (m mover) pins() bool { return m.pod != nil && resize.IsPin(m.pod) }

// succeeded reports whether the final container exited with 0, with or without a report.
func (m mover) succeeded() bool {
	return m.pins() || m.pod != nil && m.pod.Status.Phase == corev1.PodSucceeded
}

// finished reports whether the mover has made a verified copy, for this hold or another one. No mover writes to such a volume again.
func (m mover) finished() bool {
	return m.final != nil && m.final.Result == moverreport.ResultCopied || m.final == nil && m.succeeded()
}

// failed reports whether the Job has failed or will fail: the mover exited with a code that no retry would change.
func (m mover) failed() bool {
	return jobResult(m.job) == batchv1.JobFailed || m.final != nil && slices.Contains(moverreport.FinalCodes(), int32(m.final.Code))
}

// report returns the mover's latest report, or nil.
func (m mover) report() *moverreport.MemberReport {
	if m.final != nil {
		return m.final
	}
	return m.first
}

// lostLease reports whether the mover ended because no function renewed its lease.
func (m mover) lostLease() bool {
	r := m.report()
	return r != nil && r.Code == moverreport.CodeLeaseLost
}

// notConverged returns the report of a mover whose passes do not converge. It is nil for any other mover.
func (m mover) notConverged() *moverreport.MemberReport {
	if r := m.report(); r != nil && r.Result == moverreport.ResultNotConverged {
		return r
	}
	return nil
}

// outOfMemory reports whether the kernel killed a container of the mover for its use of memory. Such a container leaves no report.
func (m mover) outOfMemory() bool {
	return m.pod != nil && slices.ContainsFunc(slices.Concat(m.pod.Status.InitContainerStatuses, m.pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && c.State.Terminated.Reason == "OOMKilled"
		})
}

// jobResult returns the Job's final condition, or "" while it runs. A Job whose copy is finished keeps running until it is deleted.
func jobResult(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// jobFailure returns the reason and message of the Job's condition Failed.
func jobFailure(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return c.Reason + ": " + c.Message
		}
	}
	return "job " + job.Name + " failed"
}
