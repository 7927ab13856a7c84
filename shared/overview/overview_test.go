package overview

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestListShowsWhoSleepsAndWhatKeepsOthersAwake: the reasons are those of idle-timeout.
func TestListShowsWhoSleepsAndWhatKeepsOthersAwake(t *testing.T) {
	zero := build.Replicas(0)
	timeout := build.Annotation(api.IdleTimeoutAnnotation, "30m")
	active := build.Annotation(api.LastActivityAnnotation, idle.FormatTime(build.Now.Add(-time.Minute)))
	asleep := build.Sleep(api.Asleep)
	asleep.PodsGoneAt = operation.Moment(build.Now.Add(-time.Hour))
	resize := func(name string, phase api.Phase) *appsv1.StatefulSet {
		record := build.Operation(phase)
		record.Set.Name, record.Set.UID = name, types.UID("uid-"+name)
		return build.Set(name, build.Resize(record.Request), build.Status(record))
	}
	sets := []*appsv1.StatefulSet{
		build.Set("active", timeout, active),
		build.Set("asleep", timeout, zero, build.WithSleep(asleep)),
		build.Set("waking", timeout, build.WithSleep(build.Sleep(api.Waking))),
		build.Set("plain"),
		build.Set("scaled", zero),
		build.Set("invalid", build.Annotation(api.IdleTimeoutAnnotation, "soon")),
		build.Set("db", build.Label(api.GroupLabel, "shop"), timeout),
		build.Set("front", build.Label(api.GroupLabel, "shop"), timeout, active),
		resize("moving", api.Moving),
		resize("refused", api.Refused),
		resize("resized", api.Succeeded),
		build.Set("garbled", build.Annotation(api.StatusAnnotation, "{"), build.Annotation(api.DeadLettersAnnotation, "{")),
	}
	text, err := json.MarshalIndent(New(sets, build.Now), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, string(text))
}

// TestListSaysThatInvalidDependenciesKeepTheGroupAwake: docs/sleep.md: column WHY of kubectl drydock list is what keeps a set awake.
func TestListSaysThatInvalidDependenciesKeepTheGroupAwake(t *testing.T) {
	used := build.Annotation(api.LastActivityAnnotation, idle.FormatTime(build.Now.Add(-5*time.Hour)))
	db := build.Set("db", build.InGroup("shop"), build.IdleTimeout("30m"), used)
	web := build.Set("web", build.InGroup("shop"), build.IdleTimeout("30m"), used, build.DependsOn("missing"))
	group := idle.Group{idle.MemberOf(db), idle.MemberOf(web)}.InWakeOrder()
	for _, v := range group.Verdicts(build.Now, time.Time{}) {
		if !v.Awake {
			t.Fatal("control: idle-timeout keeps the group awake")
		}
	}
	for _, s := range New([]*appsv1.StatefulSet{db, web}, build.Now).Sets {
		if !strings.Contains(s.Why, "invalid") {
			t.Errorf("%s is %s, why: %q", s.Name, s.State, s.Why)
		}
	}
}
