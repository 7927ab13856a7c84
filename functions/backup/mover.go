package backup

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resize"
)

// mover is the Job of a member's present attempt, with its latest pod and what its containers have reported.
type mover struct {
	job          *batchv1.Job
	pod          *corev1.Pod
	first, final *moverreport.MemberReport
}

// moverOf finds the member's mover.
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
		if isOf(pod, m.job) && (m.pod == nil || m.pod.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			m.pod = pod
		}
	}
	if m.pod != nil {
		m.first = reportOf(m.pod.Status.InitContainerStatuses, moverreport.FirstContainer)
		m.final = reportOf(m.pod.Status.InitContainerStatuses, moverreport.FinalContainer)
	}
	return m
}

// isOf reports whether the Job made the pod, and not one of the same name before it.
func isOf(pod *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }

// reportOf reads the termination message of a container; nil if it has not ended, or says nothing that can be read.
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

// waits reports whether the mover has made its first passes, and waits beside the member.
func (m mover) waits() bool { return m.pod != nil && m.first != nil && resize.Waits(m.pod) }

// copied reports whether the mover has made a verified copy for this very hold. It counts only when the kubelet has reported the end of the
// container: then it cannot write any more. The pod runs on, and keeps the volumes attached.
func (m mover) copied(signal moverreport.Signal) bool {
	return m.pod != nil && m.final != nil &&
		m.final.Result == moverreport.ResultCopied && m.final.Signal != nil && *m.final.Signal == signal
}

// ended reports whether the mover will do nothing more.
func (m mover) ended() bool {
	return endOfJob(m.job) != "" || m.final != nil || m.succeeded()
}

// pins reports whether the pod's copy has ended well, so that it only keeps the volumes attached.
func (m mover) pins() bool { return m.pod != nil && resize.Pins(m.pod) }

// succeeded reports whether the copy has ended well, whatever it has reported.
func (m mover) succeeded() bool {
	return m.pins() || m.pod != nil && m.pod.Status.Phase == corev1.PodSucceeded
}

// finished reports whether the mover has made a verified copy, for any hold. No mover writes to such a volume again.
func (m mover) finished() bool {
	return m.final != nil && m.final.Result == moverreport.ResultCopied || m.final == nil && m.succeeded()
}

// failed reports whether the Job was given up, or will be: the mover has ended with a code that another try would not change.
func (m mover) failed() bool {
	return endOfJob(m.job) == batchv1.JobFailed || m.final != nil && slices.Contains(moverreport.FinalCodes(), int32(m.final.Code))
}

// report returns the mover's latest report; nil if there is none.
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

// notConverged returns the report of a mover whose forecast does not fall; nil if that is not so.
func (m mover) notConverged() *moverreport.MemberReport {
	if r := m.report(); r != nil && r.Result == moverreport.ResultNotConverged {
		return r
	}
	return nil
}

// outOfMemory reports whether the kernel has killed the mover for its use of memory. Such a mover reports nothing.
func (m mover) outOfMemory() bool {
	return m.pod != nil && slices.ContainsFunc(slices.Concat(m.pod.Status.InitContainerStatuses, m.pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && c.State.Terminated.Reason == "OOMKilled"
		})
}

// renewed is when the mover's lease was last renewed. The lease of a mover that waits begins with its container, and that of a pin with the
// end of the copy: to write to the pod then would cost time in the stop, since the kubelet takes in one change of a pod a second (kubernetes
// pkg/kubelet/pod_workers.go, GetNewerThan). Such a beginning is a time of the node's clock. It counts only until the lease is renewed, and
// not while it is still to come: where that clock is ahead, the next renewal would be too late.
func (m mover) renewed(member *api.Member, now time.Time) time.Time {
	at, _ := time.Parse(time.RFC3339, m.pod.Annotations[moverreport.LeaseAnnotation])
	began := time.Time{}
	switch sinceStop := member.Stopped != nil && at.After(member.Stopped.Time); {
	case m.pins() && !sinceStop: // nothing renews the lease in a final pass
		began = endOf(m.pod)
	case !m.pins() && at.IsZero():
		began = startOf(m.pod, moverreport.FinalContainer)
	}
	if began.After(now) {
		return at
	}
	return later(at, began)
}

// startOf is when the init container that runs has started; zero if it does not run.
func startOf(pod *corev1.Pod, container string) time.Time {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == container && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}

// endOfJob is the Job's final condition, or nothing while it runs. A Job whose copy has been made runs on, until it is deleted.
func endOfJob(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func jobMessage(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return c.Reason + ": " + c.Message
		}
	}
	return "see kubectl describe job " + job.Name
}
