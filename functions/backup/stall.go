package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/statefulset"
)

// Times after which a stall is shown. Each is well above the time of a healthy cluster, and within a minute of being observable.
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
	// unplaced: the scheduler has found no node. The same mover may find one when the member has stopped.
	unplaced bool
	// firstSeen: since is a guess, so the stall is never over.
	firstSeen bool
}

func (s *stall) cause() string { return s.reason + ": " + s.detail }

// over reports whether the stall has lasted too long. It is false for nil.
func (s *stall) over(now time.Time) bool {
	return s != nil && !s.firstSeen && now.Sub(s.since) >= s.allowed
}

// stallOf returns why the mover cannot go on, or nil if it can, or has ended.
func (w *work) stallOf(member *api.Member, m mover) *stall {
	if m.job == nil || m.ended() {
		return nil
	}
	s := &stall{notice: noticeStart, allowed: w.Settings.StartTimeout}
	pod := m.pod
	if pod != nil && ended(pod) {
		pod = nil
	}
	switch {
	case pod == nil:
		w.withoutPod(s, member, m)
	case pod.DeletionTimestamp != nil:
		s.reason, s.since = "Terminating", pod.DeletionTimestamp.Time
		s.detail = fmt.Sprintf("pod %s is being deleted and does not end; look at node %s", pod.Name, pod.Spec.NodeName)
	case pod.Status.Phase == corev1.PodPending && !started(pod):
		s.since, s.unplaced = pod.CreationTimestamp.Time, pod.Spec.NodeName == ""
		if s.reason, s.detail = waitingFor(pod); s.reason != "" {
			s.notice = -1 // a container that only takes its time has no message
		} else {
			s.reason, s.detail = whyPending(pod, w.Warnings[pod.Name])
		}
	default:
		return w.stallOfStarted(member, pod, s)
	}
	return s
}

// started reports whether a container of the mover runs: a pod whose init container runs is Pending.
func started(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == moverreport.FirstContainer && c.State.Waiting == nil
	})
}

func ended(pod *corev1.Pod) bool { return statefulset.Done(pod) }

// withoutPod describes a Job that has no pod: the API server refuses it, or the Job controller does not make one. A pod that was
// deleted is replaced within moments and leaves no trace of when that was, so the time counts from when the lack was first seen.
func (w *work) withoutPod(s *stall, member *api.Member, m mover) {
	s.reason, s.detail, s.notice = noPod, fmt.Sprintf("job %s has no pod; look at kubectl describe job %s", m.job.Name, m.job.Name),
		noticeNoPod
	s.since = m.job.CreationTimestamp.Time
	if m.pod != nil {
		s.since = later(s.since, endOf(m.pod))
	}
	if member.ProgressAt != nil { // it had a pod then
		s.since = later(s.since, member.ProgressAt.Time)
	}
	if warning := w.Warnings[m.job.Name]; warning.Reason != "" && !warning.At.Before(s.since) {
		s.reason, s.detail, s.notice = warning.Reason, warning.Message, -1
	}
	if s.firstSeen = member.StalledSince == nil || !withoutPodBefore(member); !s.firstSeen {
		s.since = member.StalledSince.Time
	}
}

// withoutPodBefore reports whether the Job had no pod when the member was last looked at.
func withoutPodBefore(member *api.Member) bool {
	return member.Stalled == "" || strings.HasPrefix(member.Stalled, noPod+": ") || strings.HasPrefix(member.Stalled, failedCreate+": ")
}

const (
	noPod = "NoPod"
	// failedCreate is the reason of the Job controller's Events about pods that the API server refuses.
	failedCreate = "FailedCreate"
)

// endOf is when the last container that has ended did so.
func endOf(pod *corev1.Pod) time.Time {
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

// stallOfStarted returns why a started pod cannot go on, or nil: the node does not report, or the mover reports no progress.
func (w *work) stallOfStarted(member *api.Member, pod *corev1.Pod, s *stall) *stall {
	lost, moved := w.lostSince(pod), w.Moved[member.Ordinal]
	if !moved.IsZero() && member.Stopped != nil { // before the stop, it waited
		moved = later(moved, member.Stopped.Time)
	}
	switch {
	case !lost.IsZero():
		s.reason, s.since = "NodeNotReady", lost
		s.detail = fmt.Sprintf("node %s of pod %s does not report", pod.Spec.NodeName, pod.Name)
	case !moved.IsZero() && w.Settings.ProgressTimeout > 0:
		s.reason, s.since, s.notice, s.allowed = "NoProgress", moved, min(noticeSilence, w.Settings.ProgressTimeout), w.Settings.ProgressTimeout
		s.detail = fmt.Sprintf("pod %s on node %s reports no progress; its storage may hang", pod.Name, pod.Spec.NodeName)
	default:
		return nil
	}
	return s
}

// lostSince returns since when the pod's node does not report, or zero. The node says so itself, where it is that of a pod that is being
// stopped. The node lifecycle controller makes the running pods of such a node not ready and gives no reason; a kubelet gives one
// (kubernetes pkg/controller/util/node, MarkPodsNotReady). A mover whose init containers run is not ready anyway.
func (in Input) lostSince(pod *corev1.Pod) time.Time {
	if node := in.Nodes[pod.Spec.NodeName]; node != nil {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return c.LastTransitionTime.Time
			}
		}
	}
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
