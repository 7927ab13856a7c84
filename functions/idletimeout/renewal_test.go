package idletimeout

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestKeptMembersAreRenewedDuringTheResize: a resize has created the set again, and the record of the sleep that keeps members counts
// only as long as the record of this resize. A user has already written the next request, so detect-resize replaces that record as soon
// as the resize ends. The record of the sleep must be renewed before, as scale-hooks renews its own.
func TestKeptMembersAreRenewedDuringTheResize(t *testing.T) {
	resize := build.Operation(api.Finishing, build.Due(time.Minute), func(r *api.Resize) {
		r.ReplaceSet, r.Attempt = true, 1
		r.Operation = api.OperationID("uid-before", r.Request, r.Attempt)
	})
	late := build.Sleep(api.Failed, build.OwnerStops(), func(s *api.Sleep) { s.KeepMembers, s.Set.UID = 3, "uid-before" })
	set := web(build.Replicas(2), build.Status(resize), build.Annotation(api.SleepAnnotation, late.Encode()))
	if s, err := api.LoadSleep(set); err != nil || s == nil || s.Set.UID != "uid-before" {
		t.Fatal(s, err)
	}
	p := Decide(on(set))
	if stored := build.StoredSleep(p); stored == nil || stored.Set.UID != set.UID {
		t.Errorf("the record has still the former UID: %s", p)
	}
}
