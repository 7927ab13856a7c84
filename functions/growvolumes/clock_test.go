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
	if in.mustPause(growth, need{template: "data", rule: api.GrowRule{Every: 6 * time.Hour}}, nothingOpen) {
		t.Error("the template does not grow for thirty days")
	}
	if in.mustPause(growth, need{template: "data"}, nothingOpen) {
		t.Error("a rule without every does not grow for thirty days")
	}
}

// TestResizeEndOfAFastClockStopsNoGrowth: a node whose clock was thirty days ahead wrote the end of the latest resize. All figures look
// older than that. A volume with 1 % free space must not wait for thirty days, without a Warning.
func TestResizeEndOfAFastClockStopsNoGrowth(t *testing.T) {
	in := webWith(rule, []build.Option{build.Resize("data=100Mi+"),
		withEndedResize(api.Succeeded, "data=100Mi+", -30*24*time.Hour)}, withFree("data-web-1", 1))
	p, warnings := decideWithWarnings(in)
	if got := written(p)[api.GrowToAnnotation]; got != "data=110Mi" {
		t.Errorf("the nearly full volume does not grow: %s, %+v", p, warnings)
	}
}

// TestStalledFloorOfAFastClockIsReported: a process with a clock thirty days ahead raised the floor, and its growth has not begun.
func TestStalledFloorOfAFastClockIsReported(t *testing.T) {
	in := webWith(rule, []build.Option{withFloors("data=110Mi", -30*24*time.Hour)},
		withFree("data-web-1", 1))
	if p, warnings := decideWithWarnings(in); len(warnings) != 1 {
		t.Errorf("nothing says for thirty days that the volume does not grow: %s, %+v", p, warnings)
	}
}
