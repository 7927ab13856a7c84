package pauseowner

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestStopByOwnerAboveIsRecorded: idle-timeout does not read owners, so only the record tells that the stop may concern sets of other
// controllers.
func TestStopByOwnerAboveIsRecorded(t *testing.T) {
	for controller, want := range map[string]bool{"main": false, "dc1": true} {
		o := ownerWithStop(t)
		in := sleepAsking(build.Sleep(api.Planned), []Owner{o})
		in.Set = build.With(in.Set, build.ControlledBy(o.Ref.Kind, controller))
		if controller == "main" {
			in.Set.OwnerReferences[0].UID = o.Object.GetUID()
		}
		p := prepareStop(in, operation.Of(in.Set).Sleep, o)
		if next := build.StoredSleep(p); next == nil || !next.OwnerStops || next.OwnerAbove != want {
			t.Errorf("controller %s: %s, want ownerAbove %t", controller, p, want)
		}
	}
}
