package scalehooks

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestPauseOfRestoredScalerEnds: Drydock has paused the Scaler for a sleep, and set and Scaler were deleted. A backup restores the Scaler
// with its managedFields, but without its status, as Velero does. The set comes from its manifest, with three replicas.
func TestPauseOfRestoredScalerEnds(t *testing.T) {
	for name, o := range map[string][]build.Option{"three replicas": nil, "at zero": {build.Replicas(0)}} {
		t.Run(name, func(t *testing.T) {
			in := observed(web(3, o...), pilot(build.PausedByDrydock(), editScaler(func(s *v1alpha1.Scaler) { s.Status = v1alpha1.ScalerStatus{} })))
			for range 8 {
				p := Decide(in)
				t.Logf("%s", p)
				if p.Reason == api.PauseEnded {
					return
				}
				for _, a := range p.Actions {
					in = in.afterAction(a)
				}
			}
			t.Errorf("nobody ends the pause: the set has %d replicas", statefulset.Replicas(in.Set))
		})
	}
}
