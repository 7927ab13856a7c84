package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestPodWithCrashingInitContainerIsCopiedOrExplained: the disk is full, so an init container of the pod fails again and again. Its phase
// is Pending, although its volumes are mounted. The user asks for a larger volume to repair exactly that. The wait must not be silent until
// the deadline.
func TestPodWithCrashingInitContainerIsCopiedOrExplained(t *testing.T) {
	crashing := build.Edit(func(p *corev1.Pod) {
		build.Age(3 * time.Hour)(p)
		p.Spec.InitContainers = []corev1.Container{{Name: "prepare"}}
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", RestartCount: 30, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=prepare"}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	})
	p := Decide(given(copying(build.Due(24*time.Hour)), pod(0, crashing)))
	if next := build.Stored(p); next == nil || next.Phase == api.Moving && next.Members[0].Stalled == "" && next.Members[0].Pod == "" {
		t.Errorf("the pod has been failing for three hours; no mover is created and the record does not say why: %s", p)
	}
}
