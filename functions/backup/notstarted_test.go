package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func neverStarted(o *corev1.Pod) {
	build.Age(3 * time.Hour)(o)
	o.Spec.NodeName, o.Status.Phase = "", corev1.PodPending
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/3 nodes are available: 3 Insufficient cpu."}}
	o.Status.ContainerStatuses = nil
}

// TestStallOfMemberEndsWithItsRemedy: the stall advises to scale the set to 0. Then the member is handed to restore, and the stall must
// end.
func TestStallOfMemberEndsWithItsRemedy(t *testing.T) {
	first := Decide(given(copying(build.Due(24*time.Hour)), pod(0, build.Edit(neverStarted))))
	stalled := build.Stored(first)
	if stalled == nil || stalled.Members[0].Stalled == "" {
		t.Fatalf("control: %s", first)
	}
	at := append(set(stalled, build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at))
	next := build.Stored(p)
	if next == nil || next.Members[0].Phase != api.MemberWaiting {
		t.Fatalf("control: %s", p)
	}
	if next.Members[0].Stalled != "" || next.Reason == api.MoverStalled {
		t.Errorf("the user has followed the advice; the pod is gone, and the record still says: %s: %s (member: %q)", next.Reason, next.Message,
			next.Members[0].Stalled)
	}
	// restore writes why it does not stop the member yet. backup must leave that alone.
	next.Reason, next.Message = api.GateClosed, "the cutover waits for the window Sat 02:00-04:00"
	at = append(set(next, build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	if stored := build.Stored(Decide(given(at))); stored != nil {
		t.Errorf("backup overwrites restore's message, and restore will overwrite backup's: %s: %s", stored.Reason, stored.Message)
	}
}

// TestStallOfMemberEndsWhenPodRuns: the pod runs, and its mover only waits for the turn of another member.
func TestStallOfMemberEndsWhenPodRuns(t *testing.T) {
	first := Decide(given(copying(build.Due(24*time.Hour)), pod(0, build.Edit(neverStarted))))
	stalled := build.Stored(first)
	at := append(set(stalled), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at, pod(0)))
	next := build.Stored(p)
	t.Logf("%s", p)
	if next == nil || next.Members[0].Stalled != "" {
		t.Errorf("the pod runs, and the record says: %q", stalled.Members[0].Stalled)
	}
}
