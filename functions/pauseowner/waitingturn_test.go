package pauseowner

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestOwnerIsResumedWhileTheNextResizeWaits: a sleep has ended, and its owner is still paused: the event of its end was late, and a resize
// that was requested during the sleep is planned already. The resize waits for its turn, without a time limit. Until then, the owner must
// not stay paused.
// Invariants: I5.
func TestOwnerIsResumedWhileTheNextResizeWaits(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"), build.DerivedID)
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	full := turnsOf(t, turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true), own)
	for name, row := range map[string]struct {
		sleep  *api.Sleep
		paused bool
	}{
		"the sleep has ended": {build.Sleep(api.Succeeded, build.SleepEnded(api.Awake, time.Second)), false},
		"the set sleeps":      {build.Sleep(api.Asleep), true},
	} {
		t.Run(name, func(t *testing.T) {
			keda := kedaScaler(t).held(t, owners.ByPause, build.SleepID)
			resize := planned
			for range 5 {
				record := keda.recorded(owners.ByPause)
				record.Row = keda.Row
				in := Input{Namespace: build.Namespace, Settings: build.Settings(), Turns: full,
					OwnerRecords: []OwnerRecord{record}, Owners: []Owner{keda}}
				in.Observed = build.World(build.Set("web", build.Status(resize), build.Replicas(3), build.ReplicaCounts(3, 3),
					build.WithSleep(row.sleep)))
				p := Decide(in)
				t.Logf("%s", p)
				if stored := build.Stored(p); stored != nil {
					resize = stored
				}
				for _, a := range p.Actions {
					if a.Resource == keda.Resource {
						keda.Object = patched(t, keda.Object, []plan.Action{a})
					}
				}
			}
			if paused := keda.Row.Held(owners.ByPause, keda.Object); paused != row.paused {
				t.Errorf("the owner is paused: %t, want %t", paused, row.paused)
			}
		})
	}
}
