package pauseowner

import (
	"cmp"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestStopByOwnerAboveIsRecorded: idle-timeout does not read owners, so only the record tells that the stop may concern sets of other
// controllers.
func TestStopByOwnerAboveIsRecorded(t *testing.T) {
	for controller, below := range map[string]string{"main": "", "dc1": "CassandraDatacenter"} {
		o := ownerWithStop(t)
		in := sleepAsking(build.Sleep(api.Planned), []Owner{o})
		in.Set = build.With(in.Set, build.ControlledBy(cmp.Or(below, o.Ref.Kind), controller))
		if below == "" {
			in.Set.OwnerReferences[0].UID = o.Object.GetUID()
		}
		p := prepareStop(in, operation.Of(in.Set).Sleep, o)
		next := build.StoredSleep(p)
		if next == nil || !next.OwnerStops || next.StoppedOwner != o.Object.GetUID() {
			t.Errorf("controller %s: %s", controller, p)
			continue
		}
		in.Set = build.With(in.Set, build.WithSleep(next))
		if record := createdRecord(t, in); record.UID != next.StoppedOwner {
			t.Errorf("controller %s: %+v", controller, record)
		}
	}
}
