package backup

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMoverLeavesVolumesToRescheduledPod: the member's pod was deleted during the first passes, for example by a rollout or a descheduler,
// and its replacement was placed on another node. It cannot start there, because the mover keeps the ReadWriteOnce volumes attached to the
// first node ("Multi-Attach error"). So the mover has to end now, not after the first pass of hours.
func TestMoverLeavesVolumesToRescheduledPod(t *testing.T) {
	replacement := pod(0, build.UID("uid-replacement"), build.Edit(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = "another-node", corev1.PodPending
		p.Status.Conditions, p.Status.ContainerStatuses = nil, []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	}))
	running := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	// restore has cancelled a stop in its final pass, so the next attempt has no mover yet. A final pass has no lease and may take hours, too.
	cancelled := build.EditMember(0, func(m *api.Member) { m.Attempt, m.Pod, m.Node, m.StoppedAt = 2, "", "", nil })
	inFinalPass := moverPod(1, build.FirstPassConverged(), build.Annotation(moverreport.SignalAnnotation, signal.Encode()))
	for name, in := range map[string]Input{
		"the first pass runs":                     given(copying(), replacement, moverPod(1, running)),
		"the final pass of a cancelled stop runs": given(copying(cancelled), replacement, inFinalPass),
	} {
		p := Decide(in)
		if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Jobs && a.Verb == plan.VerbDelete }) {
			t.Errorf("%s: pod web-0 is another one, on another node, and the mover keeps its volumes: %s", name, p)
		}
	}
}
