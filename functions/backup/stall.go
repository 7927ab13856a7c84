package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
)

// When a stall is shown. Each is well above what a healthy cluster takes, and within a minute of being observable.
const (
	// noticeStart is how long a mover's pod may take to start, or to end, before the user is told.
	noticeStart = 20 * time.Second
	// noticeNoPod is how long a Job may be without a pod for no known reason.
	noticeNoPod = time.Minute
	// noticeSilence is how long a running mover may report no progress.
	noticeSilence = 5 * time.Minute
)

// Warning is the content of a Kubernetes Event of type Warning.
type Warning struct {
	Reason, Message string
	At              time.Time
}

// stall is why a mover cannot go on.
type stall struct {
	// reason is a CamelCase word: that of the kubelet, the scheduler or the Job controller where there is one.
	reason, detail string
	since          time.Time
	// notice is when the user is told, allowed when the operation fails; both count from since.
	notice, allowed time.Duration
	// unplaced: the scheduler has found no node. The same mover may find one when the set is stopped.
	unplaced bool
	// firstSeen: since is a guess, so the stall is never over.
	firstSeen bool
}

func (s *stall) cause() string { return s.reason + ": " + s.detail }

// over reports whether the stall has lasted too long. It is false for nil.
func (s *stall) over(now time.Time) bool {
	return s != nil && !s.firstSeen && now.Sub(s.since) >= s.allowed
}

// stallOf returns why the Job's mover cannot go on, or nil if it can, or has ended.
func stallOf(in Input, part *api.ClaimStatus, job *batchv1.Job) *stall {
	if outcome(in, job) != "" {
		return nil
	}
	s := &stall{notice: noticeStart, allowed: in.Settings.StartTimeout}
	pod := livePod(in, job)
	switch {
	case pod == nil:
		s.withoutPod(in, part, job)
	case pod.DeletionTimestamp != nil:
		s.reason, s.since = "Terminating", pod.DeletionTimestamp.Time
		s.detail = fmt.Sprintf("pod %s is being deleted and does not end; look at node %s", pod.Name, pod.Spec.NodeName)
	case pod.Status.Phase == corev1.PodPending:
		s.since, s.unplaced = pod.CreationTimestamp.Time, pod.Spec.NodeName == ""
		if s.reason, s.detail = waitingFor(pod); s.reason != "" {
			s.notice = -1 // a container that only takes its time has no message
		} else {
			s.reason, s.detail = whyPending(pod, in.Warnings[pod.Name])
		}
	default:
		return stallOfRunning(in, part, pod, s)
	}
	return s
}

// livePod returns the Job's pod that has not ended, or nil.
func livePod(in Input, job *batchv1.Job) *corev1.Pod {
	for _, pod := range in.Movers(job.Labels[api.OperationLabel]) {
		if isOf(pod, job) && !ended(pod) {
			return pod
		}
	}
	return nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// withoutPod describes a Job that has no pod: the API server refuses it, or the Job controller does not make one. A pod that was
// deleted is replaced within moments and leaves no trace of when that was, so the time counts from when the lack was first seen.
func (s *stall) withoutPod(in Input, part *api.ClaimStatus, job *batchv1.Job) {
	s.reason, s.detail, s.notice = noPod, fmt.Sprintf("job %s has no pod; look at kubectl describe job %s", job.Name, job.Name), noticeNoPod
	s.since = job.CreationTimestamp.Time
	for _, pod := range in.Movers(job.Labels[api.OperationLabel]) {
		if isOf(pod, job) {
			s.since = later(s.since, endOf(pod))
		}
	}
	if part.ProgressAt != nil { // it had a pod then
		s.since = later(s.since, part.ProgressAt.Time)
	}
	if warning := in.Warnings[job.Name]; warning.Reason != "" && !warning.At.Before(s.since) {
		s.reason, s.detail, s.notice = warning.Reason, warning.Message, -1
	}
	if s.firstSeen = part.StalledSince == nil || !withoutPodBefore(part); !s.firstSeen {
		s.since = part.StalledSince.Time
	}
}

// withoutPodBefore reports whether the Job had no pod when the claim was last looked at.
func withoutPodBefore(part *api.ClaimStatus) bool {
	return part.Stalled == "" || strings.HasPrefix(part.Stalled, noPod+": ") || strings.HasPrefix(part.Stalled, failedCreate+": ")
}

const (
	noPod = "NoPod"
	// failedCreate is the reason of the Job controller's Events about pods that the API server refuses.
	failedCreate = "FailedCreate"
)

func endOf(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == resources.MoverContainer && c.State.Terminated != nil {
			return c.State.Terminated.FinishedAt.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// stallOfRunning returns why a started pod cannot go on, or nil: another container outlives the copy, the node does not report, or
// the mover reports no progress.
func stallOfRunning(in Input, part *api.ClaimStatus, pod *corev1.Pod, s *stall) *stall {
	others := []string{}
	copied := time.Time{}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.Name != resources.MoverContainer && c.State.Terminated == nil:
			others = append(others, c.Name)
		case c.Name == resources.MoverContainer && c.State.Terminated != nil:
			copied = c.State.Terminated.FinishedAt.Time
		}
	}
	lost := lostSince(pod)
	switch moved := in.Moved[part.Name]; {
	case !copied.IsZero():
		s.reason, s.since = "SidecarRunning", copied
		s.detail = fmt.Sprintf("the copy has ended, but container %s of pod %s still runs; have it end with the copy, or not be injected, with labels or annotations in %s",
			strings.Join(others, ", "), pod.Name, api.MoverAnnotation)
	case !lost.IsZero():
		s.reason, s.since = "NodeNotReady", lost
		s.detail = fmt.Sprintf("node %s of pod %s does not report", pod.Spec.NodeName, pod.Name)
	case !moved.IsZero() && in.Settings.ProgressTimeout > 0:
		s.reason, s.since, s.notice, s.allowed = "NoProgress", moved, min(noticeSilence, in.Settings.ProgressTimeout), in.Settings.ProgressTimeout
		s.detail = fmt.Sprintf("pod %s on node %s reports no progress; its storage may hang", pod.Name, pod.Spec.NodeName)
	default:
		return nil
	}
	return s
}

// lostSince returns since when the pod's node does not report, or zero. The node lifecycle controller makes the pods of such a node
// not ready and gives no reason; a kubelet gives one (kubernetes pkg/controller/util/node, MarkPodsNotReady).
func lostSince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == "" {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// waitingFor returns why the kubelet cannot start a container of the pod, or nothing.
func waitingFor(pod *corev1.Pod) (reason, detail string) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			if w.Reason == "ErrImagePull" { // the kubelet tells one and the other in turn
				return "ImagePullBackOff", w.Message
			}
			return w.Reason, w.Message
		}
	}
	return "", ""
}

// whyPending returns the latest Warning about a pod that has a node and does not start, else what its conditions say.
func whyPending(pod *corev1.Pod, warning Warning) (reason, detail string) {
	if warning.Reason != "" && pod.Spec.NodeName != "" {
		return warning.Reason, warning.Message
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Reason, c.Message
		}
	}
	return "NotStarted", "look at kubectl describe pod " + pod.Name
}
