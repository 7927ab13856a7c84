package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Trouble is a failure of a running mover. A held mover can fail, too.
type Trouble string

const (
	// Evicted: the kubelet reclaims its memory.
	Evicted Trouble = "evicted"
	// OutOfMemory: the kernel kills it at its own memory limit.
	OutOfMemory Trouble = "out of memory"
	// Deleted: a user deletes its pod.
	Deleted Trouble = "deleted"
)

// hazards are the failures of pods and machines that a Node plays.
type hazards struct {
	// Troubles are the failures of the next movers, one each, in this order.
	Troubles []Trouble
	// Trouble is the failure of every later mover.
	Trouble Trouble
	// NoImage: the movers' image cannot be pulled.
	NoImage bool
	// Sidecar keeps running in every mover's pod after the copy has ended.
	Sidecar bool

	fates   map[types.UID]Trouble
	machine string          // the machine of the pods; empty for the machine that all worlds share
	lost    map[string]bool // the lost machines
}

// playTrouble lets a running mover fail, and reports whether it has a failure to play. It repeats this until the end is
// observed.
func (n *Node) playTrouble(ctx context.Context, pod *corev1.Pod) bool {
	switch trouble := n.troubleOf(pod.UID); trouble {
	case "":
		return false
	case Deleted:
		_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	default:
		n.setStatus(ctx, pod, troubledStatus(pod, trouble))
	}
	return true
}

// troubleOf returns the failure of the mover. A running mover without one may get the next failure.
func (n *Node) troubleOf(mover types.UID) Trouble {
	n.mu.Lock()
	defer n.mu.Unlock()
	if trouble, known := n.fates[mover]; known || n.ended[mover] {
		return trouble
	}
	trouble := n.Trouble
	if len(n.Troubles) > 0 {
		trouble, n.Troubles = n.Troubles[0], n.Troubles[1:]
	}
	if trouble != "" {
		if n.fates == nil {
			n.fates = map[types.UID]Trouble{}
		}
		n.fates[mover] = trouble
	}
	return trouble
}

// troubledStatus returns the status that the kubelet reports for a killed pod (kubernetes pkg/kubelet/eviction,
// pkg/kubelet/kuberuntime).
func troubledStatus(pod *corev1.Pod, trouble Trouble) corev1.PodStatus {
	ended := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: metav1.Now()}
	status := *pod.Status.DeepCopy()
	status.Phase, status.Conditions = corev1.PodFailed, ready(corev1.ConditionFalse, "PodFailed")
	if len(status.InitContainerStatuses) == 0 { // it has just started
		status.InitContainerStatuses, status.ContainerStatuses = unstarted(pod.Spec.InitContainers), unstarted(pod.Spec.Containers)
		status.InitContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	}
	for _, all := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range all {
			if all[i].State.Running != nil { // a waiting container keeps its state (kubernetes pkg/kubelet/status, TerminatePod)
				all[i].Ready, all[i].Started = false, nil
				all[i].State = corev1.ContainerState{Terminated: ended}
			}
		}
	}
	switch trouble {
	case OutOfMemory:
		ended.Reason = "OOMKilled"
		return status
	case Deleted:
		return status
	}
	status.Reason, status.Message = "Evicted", "The node was low on resource: memory."
	status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet",
		Message: status.Message, LastTransitionTime: metav1.Now()}}
	return status
}

// unstarted returns container statuses without a state.
func unstarted(containers []corev1.Container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image})
	}
	return all
}

// withSidecar adds an injected, running container to a status.
func withSidecar(ended corev1.PodStatus) corev1.PodStatus {
	ended.ContainerStatuses = append(ended.ContainerStatuses, corev1.ContainerStatus{Name: "mesh-proxy",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
	return ended
}
