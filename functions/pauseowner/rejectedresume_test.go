package pauseowner

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRejectedResumeOfAFormerOwnerRefusesNoSleep: web and db of one operator are in one group. The record of a former sleep of web still
// has a ScaledObject that is paused, because a webhook rejects its resume. The next sleep of web waits until db will sleep, too.
// Nothing rejects a write for this sleep.
func TestRejectedResumeOfAFormerOwnerRefusesNoSleep(t *testing.T) {
	shop := build.InGroup("shop")
	keda := kedaScaler(t).held(t, owners.ByPause, "aaaaaaaaaaaa")
	record := keda.recorded(owners.ByPause)
	record.Row = keda.Row
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	record.Link.Operation = "aaaaaaaaaaaa"
	in := sleepAsking(planned, []Owner{ownerWithStop(t)}, shop)
	in.Siblings = []*appsv1.StatefulSet{build.Set("db", build.Replicas(1), shop)} // its sleep is decided next
	in.OwnerRecords, in.RejectedWrites = []OwnerRecord{record}, map[string]error{}
	for range 3 { // as Handle does
		p := Decide(in)
		t.Logf("%s", p)
		if next := build.StoredSleep(p); next != nil && next.Phase == api.Refused {
			t.Errorf("the sleep is refused: %s", next.Message)
		}
		if p.Kind != plan.KindDo || !writesTo(p, keda.Resource) {
			return
		}
		in.Rejected = errors.New("admission webhook denied the request")
		in.RejectedWrites[writeKey(keda.Resource, "main")] = in.Rejected
	}
}
