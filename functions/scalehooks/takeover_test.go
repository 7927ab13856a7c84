package scalehooks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestTakeOverByPausedScalerKeepsClaims: a paused Scaler wants three members. Its set has one and has lost its record. From the
// take-over to the end of the scaling, the claims of all three are kept, and the pause remembers three.
func TestTakeOverByPausedScalerKeepsClaims(t *testing.T) {
	claims := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "1Gi"), build.Claim("data-web-2", "1Gi")}
	in := observed(web(1, build.Template("data", "1Gi", "fixed")), pilot(editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })))
	for range 3 {
		p := Decide(in)
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
		record := operation.Of(in.Set).Scale
		if record == nil || record.Paused {
			continue
		}
		for _, o := range cleanup.Ordinals(in.Set, claims, nil, 0) {
			if !o.Wanted {
				t.Errorf("after %s: the claim of member %d is not kept: %s", p, o.Number, recordSummary(record))
			}
		}
	}
	if record := operation.Of(in.Set).Scale; record == nil || !record.Paused || record.PausedCount != 3 {
		t.Errorf("the pause does not remember the members that come back: %s, count %d", recordSummary(record), record.PausedCount)
	}
}
