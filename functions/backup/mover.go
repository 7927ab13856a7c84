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

// mover is the Job of the member's present attempt, the Job's latest pod, and the reports of the pod's containers.
type mover struct {
	job          *batchv1.Job
	pod          *corev1.Pod
	first, final *moverreport.MemberReport
}

// moverOf returns the mover of the member's present attempt. If there is no Job, all fields are nil.
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

// ended reports whether the mover will copy nothing more: it has succeeded or failed.
func (m mover) ended() bool {
	return jobResult(m.job) != "" || m.final != nil || m.succeeded()
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
	return jobResult(m.job) == batchv1.JobFailed || m.final != nil && slices.Contains(moverreport.FinalCodes(), int32(m.final.Code))
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

// jobResult returns JobComplete or JobFailed, or empty while the Job runs. A Job runs on after its copy is finished, until it is deleted.
func jobResult(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// jobFailure returns the reason and the message of the Job's condition Failed. Without a message, it only says that the Job failed.
func jobFailure(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return c.Reason + ": " + c.Message
		}
	}
	return "job " + job.Name + " failed"
}
