package backup

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/statefulset"
)

// hasStarted reports whether a container of the mover has started. The pod's phase does not tell, since it is Pending until all init
// containers have ended.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == moverreport.FirstContainer && c.State.Waiting == nil
	})
}

func hasEnded(pod *corev1.Pod) bool { return statefulset.Done(pod) }

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
