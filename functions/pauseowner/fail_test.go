package pauseowner

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/build"
)

// TestLongDenialIsReportedOnce: an admission webhook denies the resume with a long text.
func TestLongDenialIsReportedOnce(t *testing.T) {
	mysql := ownerWithPause(t).held(t, owners.ByPause, build.SleepID)
	record := mysql.recorded(owners.ByPause)
	record.Row = mysql.Row
	set := build.Set("web", build.WithSleep(build.Sleep(api.Succeeded)))
	denial := "admission webhook denied the request: " + strings.Repeat("rule violated; ", 150)
	in := Input{Observed: build.World(set), OwnerRecords: []OwnerRecord{record}}.withDenial(denial)
	p := Decide(in)
	stored := build.StoredSleep(p)
	if stored == nil {
		t.Fatalf("%s", p)
	}
	again := build.Set("web", build.WithSleep(stored))
	if operation.Of(again).Sleep.OwnerProblem == "" {
		t.Fatal("no problem")
	}
	if p := Decide(Input{Observed: build.World(again), OwnerRecords: []OwnerRecord{record}}.withDenial(denial)); len(p.Actions) > 0 {
		t.Errorf("the same problem is written and reported again with each event: %d actions", len(p.Actions))
	}
}
