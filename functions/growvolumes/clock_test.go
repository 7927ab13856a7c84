package growvolumes

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

// TestGrowthOfAFastClockPausesNoDays: a node whose clock was thirty days ahead requested the latest growth. The volume is nearly
// full again, and must not wait for thirty days with every:6h.
func TestGrowthOfAFastClockPausesNoDays(t *testing.T) {
	growth := &api.Growth{Latest: map[string]api.RequestedGrowth{"data": {At: metav1.NewTime(build.Now.Add(30 * 24 * time.Hour))}}}
	in := Input{Observed: &world.Observed{Now: build.Now.Add(7 * time.Hour), Set: build.Set("web")}}
	if in.mustPause(growth, need{template: "data", rule: api.GrowRule{Every: 6 * time.Hour}}, requestMet, false) {
		t.Error("the template does not grow for thirty days")
	}
	if in.mustPause(growth, need{template: "data"}, requestMet, false) {
		t.Error("a rule without every does not grow for thirty days")
	}
}
