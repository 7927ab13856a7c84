package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestSecondContainerThatCannotStartBesideASidecarIsAStall: as TestSecondContainerThatCannotStartIsAStall, and an injector has added a
// native sidecar, an init container that runs all the time.
func TestSecondContainerThatCannotStartBesideASidecarIsAStall(t *testing.T) {
	since := build.Settings().StartTimeout + time.Hour
	broken := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		build.Age(since + time.Minute)(p)
		p.Status.InitContainerStatuses[0].State.Terminated.FinishedAt = ago(since)
		p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError",
			Message: "failed to mount /targets/data: stale NFS file handle"}}
		p.Status.InitContainerStatuses = append([]corev1.ContainerStatus{{Name: "proxy",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, p.Status.InitContainerStatuses...)
	})
	for name, at := range map[string]objects{
		"the member is stopped": append(stopped(build.Due(24*time.Hour)), moverPod(1, broken)...),
		"the member runs":       append(append(copying(build.Due(24*time.Hour)), pod(0)...), moverPod(1, broken)...),
	} {
		p := Decide(given(at))
		if next := build.Stored(p); next == nil || next.Phase == api.Moving && next.Members[0].Stalled == "" {
			t.Errorf("%s, and its mover could not start its second container for %s: %s", name, since, p)
		}
	}
}
