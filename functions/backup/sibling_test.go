package backup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestMoverWhoseSiblingsPodIsGoneIsStarted: the mover that chose the node for web-0 has ended, and a node autoscaler has removed its node
// and so its pod. No pod will ever tell where it ran.
func TestMoverWhoseSiblingsPodIsGoneIsStarted(t *testing.T) {
	first := build.Job("data-web-0", 1, build.Edit(func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}))
	begun := func(s *api.Resize) { s.Claims[0].Phase, s.Claims[2].Phase = api.ClaimVerified, api.ClaimVerified }
	p := Decide(world(unplaced(begun), objects{first}))
	if jobsMade(p)["wal-web-0"] == nil {
		t.Errorf("no mover of wal-web-0 is created: %s", p)
	}
}
