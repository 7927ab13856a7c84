package kit

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// startPod runs a pod. A pod of a set then writes to its volumes.
func (n *Node) startPod(ctx context.Context, pod *corev1.Pod) {
	volumes, ok := n.volumesOf(ctx, pod, true)
	if !ok {
		return
	}
	member := pod.Labels[api.OperationLabel] == ""
	n.mu.Lock()
	if n.HoldPods && member {
		n.mu.Unlock()
		return
	}
	if !n.started[pod.UID] && member {
		n.startWriting(pod, volumes)
	}
	n.started[pod.UID] = true
	n.mu.Unlock()
	n.growMountedFileSystems(ctx, pod)
	n.setStatus(ctx, pod, startedStatus(pod))
}

// startedStatus returns the kubelet's status for a pod whose init containers have exited with 0, and whose sidecars and containers run.
func startedStatus(pod *corev1.Pod) corev1.PodStatus {
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now()), Conditions: ready(corev1.ConditionTrue, "")}
	for _, c := range pod.Spec.InitContainers {
		report := running(c.Name)
		if ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			report.Started, report.State = ptr.To(false), completed()
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, report)
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, running(c.Name))
	}
	return status
}

// startWriting lets a pod write to its volumes. The caller has locked the node.
func (n *Node) startWriting(pod *corev1.Pod, volumes map[string]string) {
	for claim, volume := range volumes {
		has, exists := n.versions[volume]
		if exists && n.wanted[claim] == volume {
			n.newest[claim] = has // its user wanted the older data, and has given up the newer data
			delete(n.wanted, claim)
		}
		if !exists || has != n.newest[claim] {
			n.violations = append(n.violations,
				fmt.Sprintf("I1: pod %s started on volume %s with version %d (exists %t) of claim %s, whose newest version is %d",
					pod.Name, volume, has, exists, claim, n.newest[claim]))
		}
	}
	n.writers[pod.UID] = writer{name: pod.Name, claims: volumes}
	n.write(pod.UID)
}

// forgetDeletedPods ends the pods that were deleted by force.
func (n *Node) forgetDeletedPods(pods []*corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid := range n.writers {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid }) {
			delete(n.writers, uid)
		}
	}
}

// write gives every claim of the pod a new version. The caller has locked the node.
func (n *Node) write(pod types.UID) {
	for claim, volume := range n.writers[pod].claims {
		n.latest++
		n.versions[volume], n.newest[claim] = n.latest, n.latest
	}
}

// endPod ends a terminating pod. Its processes write one more time. The kubelet reports their end, unmounts the volumes and deletes the
// pod. A pod with a finalizer stays without a grace period (kubernetes pkg/kubelet, SyncTerminatedPod).
func (n *Node) endPod(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	if n.HoldStops && !isMover(pod) {
		n.mu.Unlock()
		return
	}
	if n.writers[pod.UID].claims != nil {
		n.write(pod.UID)
		delete(n.writers, pod.UID)
	}
	n.mu.Unlock()
	terminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case !terminal && isMover(pod):
		n.setStatus(ctx, pod, troubledStatus(pod, Deleted))
		return
	case !terminal && len(pod.Status.ContainerStatuses) > 0:
		if !n.setStatus(ctx, pod, stoppedStatus(pod)) {
			return // the next step tries again
		}
	case terminal && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0:
		return // a finalizer holds it
	}
	_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
		Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

// stoppedStatus returns the kubelet's status for a pod whose containers have exited with 0.
func stoppedStatus(pod *corev1.Pod) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase, status.Conditions = corev1.PodSucceeded, ready(corev1.ConditionFalse, "PodCompleted")
	for _, reports := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range reports {
			if reports[i].State.Terminated == nil { // an init container has ended before
				reports[i].Ready, reports[i].Started, reports[i].State = false, ptr.To(false), completed()
			}
		}
	}
	return status
}

// completed returns the state of a container that has exited with 0 now.
func completed() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: metav1.Now(),
		FinishedAt: metav1.Now()}}
}
