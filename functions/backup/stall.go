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

// Times after which a stall is shown to the user. Each is well above the time that a healthy cluster takes.
const (
	// showStartAfter is how long a mover's pod may take to start, or to end.
	showStartAfter = 20 * time.Second
	// showNoPodAfter is how long a Job may be without a pod for no known reason.
	showNoPodAfter = time.Minute
	// showSilenceAfter is how long a running mover may report no progress.
	showSilenceAfter = 5 * time.Minute
)

// stall describes why a mover makes no progress.
type stall struct {
	// reason is a CamelCase word, taken from the kubelet, the scheduler or the Job controller if one of them gives a reason.
	reason, detail string
	since          time.Time
	// showAfter is when the stall is shown, limit when the operation fails. Both count from since.
	showAfter, limit time.Duration
	// unplaced is set if the scheduler found no node. The same mover may find a node after the member has stopped.
	unplaced bool
	// firstSeen is set if since is only a guess. Such a stall never exceeds its limit.
	firstSeen bool
}

func (s *stall) cause() string { return s.reason + ": " + s.detail }

// over reports whether the stall has reached its limit. It is false for nil.
func (s *stall) over(now time.Time) bool {
	return s != nil && !s.firstSeen && now.Sub(s.since) >= s.limit
}

// stallOf returns the stall of the member's mover. It is nil if the mover makes progress or has ended.
func (p watch) stallOf(member *api.Member, m mover) *stall {
	if m.job == nil || m.ended() {
		return nil
	}
	s := &stall{showAfter: showStartAfter, limit: p.Settings.StartTimeout}
	pod := m.pod
	if pod != nil && statefulset.Done(pod) {
		pod = nil
	}
	switch {
	case pod == nil:
		p.describeMissingPod(s, member, m)
	case pod.DeletionTimestamp == nil && betweenContainers(pod):
		s.reason, s.detail = containerWaitReason(pod)
		s.since, s.showAfter = lastContainerEnd(pod), -1
	case pod.DeletionTimestamp != nil:
		s.reason, s.since = "Terminating", pod.DeletionTimestamp.Time
		s.detail = fmt.Sprintf("pod %s is terminating but does not end; look at node %s", pod.Name, pod.Spec.NodeName)
	case pod.Status.Phase == corev1.PodPending && !hasStarted(pod):
		s.since, s.unplaced = pod.CreationTimestamp.Time, pod.Spec.NodeName == ""
		if s.reason, s.detail = containerWaitReason(pod); s.reason != "" {
			s.showAfter = -1 // shown at once: a container that is only slow has no message
		} else {
			s.reason, s.detail = pendingReason(pod, p.Warnings[pod.Name])
		}
	default:
		return p.stallOfStarted(member, pod, s)
	}
	return s
}

// betweenContainers reports whether a container of the mover has ended, and the kubelet cannot start the next one.
func betweenContainers(pod *corev1.Pod) bool {
	reason, _ := containerWaitReason(pod)
	own := []string{moverreport.FirstContainer, moverreport.FinalContainer, moverreport.PinContainer} // an injected one may run all the time
	running := slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil && slices.Contains(own, c.Name) })
	return reason != "" && !running && !lastContainerEnd(pod).IsZero()
}

// stallOfMember describes why the member is not copied although it has no mover: its pod does not start. It is shown late, because most
// pods start soon.
func (p watch) stallOfMember(pod *corev1.Pod) *stall {
	reason, detail := containerWaitReason(pod)
	if reason == "" {
		reason, detail = pendingReason(pod, Warning{})
	}
	return &stall{reason: podNotStarted, since: pod.CreationTimestamp.Time, showAfter: showSilenceAfter,
		detail: fmt.Sprintf("pod %s has not started, and a copy beside it begins only then (%s: %s). If it cannot start, scale the StatefulSet "+
			"to 0 replicas, so that its volumes are copied without it", pod.Name, reason, detail)}
}

// describeMissingPod describes a Job without a pod: the API server rejects the pod, or the Job controller does not create one. A deleted
// pod is replaced within moments and leaves no trace of the time of its deletion. So the stall counts from when it was first observed.
func (p watch) describeMissingPod(s *stall, member *api.Member, m mover) {
	s.reason, s.detail, s.showAfter = noPod, fmt.Sprintf("job %s has no pod; look at kubectl describe job -n %s %s", m.job.Name,
		m.job.Namespace, m.job.Name),
		showNoPodAfter
	s.since = m.job.CreationTimestamp.Time
	if m.pod != nil {
		s.since = later(s.since, lastContainerEnd(m.pod))
	}
	if member.ProgressAt != nil { // it had a pod then
		s.since = later(s.since, member.ProgressAt.Time)
	}
	if warning := p.Warnings[m.job.Name]; warning.Reason != "" && !warning.At.Before(s.since) {
		s.reason, s.detail, s.showAfter = warning.Reason, warning.Message, -1
	}
	if s.firstSeen = member.StalledSince == nil || !lackedPodBefore(member); !s.firstSeen {
		s.since = member.StalledSince.Time
	}
}

// lackedPodBefore reports whether the Job already had no pod in the previous observation.
func lackedPodBefore(member *api.Member) bool {
	return member.Stalled == "" || strings.HasPrefix(member.Stalled, noPod+": ") || strings.HasPrefix(member.Stalled, failedCreate+": ")
}

const (
	noPod         = "NoPod"
	podNotStarted = "PodNotStarted"
	// failedCreate is the reason of the Job controller's Events about pods that the API server rejects.
	failedCreate = "FailedCreate"
)

// stallOfStarted returns the stall of a started pod: its node does not report, or the mover reports no progress. It is nil if there is
// none.
func (p watch) stallOfStarted(member *api.Member, pod *corev1.Pod, s *stall) *stall {
	lost, moved := p.nodeLostSince(pod), p.Moved[member.Ordinal]
	if !moved.IsZero() && member.StoppedAt != nil { // before the stop, the mover waited
		moved = later(moved, member.StoppedAt.Time)
	}
	switch {
	case !lost.IsZero():
		s.reason, s.since = "NodeNotReady", lost
		s.detail = fmt.Sprintf("node %s of pod %s does not report", pod.Spec.NodeName, pod.Name)
	case !moved.IsZero() && p.Settings.ProgressTimeout > 0:
		s.reason, s.since = "NoProgress", moved
		s.showAfter, s.limit = min(showSilenceAfter, p.Settings.ProgressTimeout), p.Settings.ProgressTimeout
		s.detail = fmt.Sprintf("pod %s on node %s reports no progress; its storage may hang", pod.Name, pod.Spec.NodeName)
	default:
		return nil
	}
	return s
}

// nodeLostSince returns since when the pod's node does not report, or zero. If the node was observed, its condition Ready says so.
// Otherwise the pod's condition does: the node lifecycle controller marks the pods of a lost node as not ready without a reason, while a
// kubelet gives a reason (kubernetes pkg/controller/util/node, MarkPodsNotReady).
func (in Input) nodeLostSince(pod *corev1.Pod) time.Time {
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

// containerWaitReason returns why the kubelet cannot start a container of the pod. Both results are empty if it gives no message.
func containerWaitReason(pod *corev1.Pod) (reason, detail string) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			if w.Reason == "ErrImagePull" { // the kubelet alternates between the two reasons
				return "ImagePullBackOff", w.Message
			}
			return w.Reason, w.Message
		}
	}
	return "", ""
}

// pendingReason returns why the pod does not start: from the latest Warning if the pod has a node, otherwise from its conditions.
func pendingReason(pod *corev1.Pod, warning Warning) (reason, detail string) {
	if warning.Reason != "" && pod.Spec.NodeName != "" {
		return warning.Reason, warning.Message
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Reason, c.Message
		}
	}
	return "NotStarted", "look at kubectl describe pod -n " + pod.Namespace + " " + pod.Name
}
