package backup

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestLeaseFromTheFutureIsRenewed: the clock of the functions was set back, or another process with a fast clock wrote the lease. The mover
// only compares values on its own clock and ends after two minutes, so the time in the annotation must not delay the renewal.
func TestLeaseFromTheFutureIsRenewed(t *testing.T) {
	waiting := append(set(moving(api.MemberWaiting, provisioned)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	control := Decide(given(waiting, pod(0), moverPod(1, build.FirstPassConverged(), renewedBefore(renewEvery+time.Second))))
	if !slices.ContainsFunc(control.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods }) {
		t.Fatalf("control: %s", control)
	}
	p := Decide(given(waiting, pod(0), moverPod(1, build.FirstPassConverged(), renewedBefore(-time.Hour))))
	if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods }) {
		t.Errorf("the lease is not renewed for an hour, and the mover ends after %s: %s", moverreport.DefaultLease, p)
	}
}

// TestTargetThatIsBoundAfterTheStopIsChecked: a member without a pod, or with a ReadWriteOncePod claim, has no first pass. With
// WaitForFirstConsumer, its target gets a volume only when the mover of the final pass is scheduled. A volume that was not provisioned for
// it may hold data, and a raw device has no mark that would protect it.
func TestTargetThatIsBoundAfterTheStopIsChecked(t *testing.T) {
	static := target(web0)
	build.Static()(static[1])
	signalled := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	for name, pods := range map[string]objects{
		"the mover copies":          moverPod(1, build.FirstPassConverged(), signalled),
		"the mover was not created": nil,
	} {
		at := append(set(moving(api.MemberFinalPass)), append(journal(web0), heldPod(0)...)...)
		if p := Decide(given(at, source(web0), static, pods)); p.Reason != api.NotProvisioned {
			t.Errorf("%s: the temporary claim has a volume that was not provisioned for it, and the final pass continues: %s", name, p)
		}
	}
	done := append(set(moving(api.MemberFinalPass)), append(journal(web0), heldPod(0)...)...)
	p := Decide(given(done, source(web0), static, moverPod(1, build.FinalPassSucceeded(signal))))
	if next := build.Stored(p); next != nil && next.Members[0].Phase == api.MemberSwapping {
		t.Errorf("the member gets a volume that was not provisioned for it: %s", p)
	}
}

// TestSecondContainerThatCannotStartIsAStall: the first passes have ended, and the node cannot start the container final, for example
// because a mount has become stale. The member is down, so the record has to say why, and the operation must not wait for its deadline of
// many hours.
func TestSecondContainerThatCannotStartIsAStall(t *testing.T) {
	since := build.Settings().StartTimeout + time.Hour
	broken := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		build.Age(since + time.Minute)(p)
		p.Status.InitContainerStatuses[0].State.Terminated.FinishedAt = ago(since)
		p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError",
			Message: "failed to mount /targets/data: stale NFS file handle"}}
	})
	sidecar := build.Edit(func(p *corev1.Pod) { // an injected init container that runs all the time
		p.Status.InitContainerStatuses = append([]corev1.ContainerStatus{{Name: "proxy",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, p.Status.InitContainerStatuses...)
	})
	for name, at := range map[string]objects{
		"the member is stopped":             append(stopped(build.Due(24*time.Hour)), moverPod(1, broken)...),
		"the member runs":                   append(append(copying(build.Due(24*time.Hour)), pod(0)...), moverPod(1, broken)...),
		"the mover has an injected sidecar": append(stopped(build.Due(24*time.Hour)), moverPod(1, broken, sidecar)...),
	} {
		p := Decide(given(at))
		if next := build.Stored(p); next == nil || next.Phase == api.Moving && next.Members[0].Stalled == "" {
			t.Errorf("%s, and its mover could not start its second container for %s: %s", name, since, p)
		}
	}
}
