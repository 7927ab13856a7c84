package pauseowner

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRejectedResumeOfAFormerOwnerRefusesNoSleep: web and db of one operator are in one group. The record of a former sleep of web still
// has a ScaledObject that is paused, because a webhook rejects its resume. The next sleep of web waits until db will sleep, too. It
// must not try that resume while it waits: a rejected write refuses the sleep.
func TestRejectedResumeOfAFormerOwnerRefusesNoSleep(t *testing.T) {
	shop := build.InGroup("shop")
	keda := kedaScaler(t).held(t, owners.ByPause, "aaaaaaaaaaaa")
	record := keda.recorded(owners.ByPause)
	record.Row = keda.Row
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	record.Link.Operation = "aaaaaaaaaaaa"
	in := sleepAsking(planned, []Owner{ownerWithStop(t)}, shop)
	in.OwnerRecords = []OwnerRecord{record}
	if p := Decide(in); p.Kind != plan.KindDo {
		t.Fatalf("the test is wrong: without a sibling that is awake, the operator must be stopped for the sleep: %s", p)
	}
	in.Siblings = []*appsv1.StatefulSet{build.Set("db", build.Replicas(1), shop)} // its sleep is decided next
	if p := Decide(in); p.Kind != plan.KindWait || p.Reason != api.SiblingAwake || len(p.Actions) != 0 {
		t.Errorf("the sleep of web must only wait for db. A write that is rejected would refuse it: %s", p)
	}
}
