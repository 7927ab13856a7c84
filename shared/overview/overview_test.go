package overview

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func factsOf(sets ...*appsv1.StatefulSet) []Facts {
	var facts []Facts
	for _, set := range sets {
		facts = append(facts, FactsOf(set))
	}
	return facts
}

// TestReducedFactsOfHostileSetsAreSmall: the status page holds the facts of all sets of the cluster. A tenant decides how large these are.
func TestReducedFactsOfHostileSetsAreSmall(t *testing.T) {
	long := strings.Repeat("\x01", 4<<10)
	hostile := func(i int) *appsv1.StatefulSet {
		record := build.Operation(api.Failed, build.ReplacesSet)
		record.Message = strings.Repeat("m", 40<<10)
		set := build.Set(fmt.Sprintf("web-%d", i), build.Label("notes", strings.Repeat("x", 60)), build.Annotation("example.com/x", long))
		record.Set = api.SetRef{Name: set.Name, UID: set.UID}
		for _, key := range []string{api.IdleTimeoutAnnotation, api.KeepWarmAnnotation, api.AwakeUntilAnnotation, api.DependsOnAnnotation,
			api.LastActivityAnnotation, api.WakeReadyAnnotation, api.WakeReplicasAnnotation, api.ActivityProbeAnnotation} {
			build.Annotation(key, long)(set)
		}
		return build.With(set, build.Resize(record.Request), build.Status(record), build.Annotation(api.MoverAnnotation, long))
	}
	held := func(facts func(*appsv1.StatefulSet) Facts) int {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all []Facts
		for i := range 100 {
			all = append(all, facts(hostile(i)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if document := New(all, build.Now); len(document.Sets) != 100 || len(document.Sets[0].Operations) != 1 {
			t.Fatalf("%+v", document.Sets[0])
		}
		return (int(after.HeapAlloc) - int(before.HeapAlloc)) / len(all)
	}
	if whole := held(FactsOf); whole < 64<<10 {
		t.Errorf("the test is wrong: the facts of a set with all its fields take %d bytes", whole)
	}
	if small := held(func(set *appsv1.StatefulSet) Facts { return FactsOf(set).Reduced() }); small > 16<<10 {
		t.Errorf("the reduced facts of a set take %d bytes", small)
	}
}

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
	text, err := json.MarshalIndent(New(factsOf(sets...), build.Now), "", "  ")
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
	listed := New(factsOf(db, web), build.Now).Sets
	if len(listed) != 2 {
		t.Errorf("%d sets are listed", len(listed))
	}
	for _, s := range listed {
		if !strings.Contains(s.Why, "invalid") {
			t.Errorf("%s is %s, why: %q", s.Name, s.State, s.Why)
		}
	}
}

// TestListSaysHowToStartARestoredSet: a backup was made while the set slept. No function starts it.
func TestListSaysHowToStartARestoredSet(t *testing.T) {
	for uid, why := range map[types.UID]string{"uid-before": "kubectl drydock wake", "uid-web": "when it is needed"} {
		record := build.Sleep(api.Asleep, build.SleepReason(api.FellAsleep, "it wakes when it is needed"))
		record.Set.UID = uid
		set := build.Set("web", build.Replicas(0), build.Annotation(api.SleepAnnotation, record.Encode()))
		if listed := New([]Facts{FactsOf(set).Reduced()}, build.Now).Sets; !strings.Contains(listed[0].Why, why) {
			t.Errorf("record of %s: %s", uid, listed[0].Why)
		}
	}
}

// TestListShowsEveryOperationThatAnAlertCounts: the alerts for failed, refused and unreadable operations count all kinds, and tell the user
// to find the set in the list. An active operation hides no failed one.
func TestListShowsEveryOperationThatAnAlertCounts(t *testing.T) {
	header := func(kind api.Kind, phase api.Phase) api.Header {
		return api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: kind, Phase: phase, Request: "x", Attempt: 1,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now), Reason: api.NotReady}
	}
	cleanup := func(phase api.Phase) build.Option {
		return build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: header(api.KindCleanup, phase)}).Encode())
	}
	scaling := func(phase api.Phase) build.Option {
		return build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: header(api.KindScale, phase)}).Encode())
	}
	request := build.Resize("data=128Mi")
	resize := func(phase api.Phase) build.Option {
		return func(set metav1.Object) {
			request(set)
			build.Status(build.Operation(phase))(set)
		}
	}
	withdrawn := func(phase api.Phase) build.Option { return build.Status(build.Operation(phase)) }
	aborted := build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.Reason = api.Aborted }))
	paused := build.Status(build.Operation(api.Succeeded, func(r *api.Resize) { r.OwnerProblem = "it says 1Gi" }))
	idle := build.IdleTimeout("1h")
	for situation, row := range map[string]struct {
		options []build.Option
		want    string
	}{
		"a cleanup has failed":                  {[]build.Option{cleanup(api.Failed)}, "Cleanup Failed"},
		"a cleanup was refused":                 {[]build.Option{resize(api.Succeeded), cleanup(api.Refused)}, "Cleanup Refused"},
		"a scaling has failed":                  {[]build.Option{scaling(api.Failed)}, "Scale Failed"},
		"a sleep has failed":                    {[]build.Option{idle, build.WithSleep(build.Sleep(api.Failed))}, "Sleep Failed"},
		"a cleanup cannot be read":              {[]build.Option{build.Annotation(api.CleanupAnnotation, "{")}, "Cleanup "},
		"a scaling cannot be read":              {[]build.Option{build.Annotation(api.ScaleAnnotation, "{")}, "Scale "},
		"a sleep cannot be read":                {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, "Sleep "},
		"a resize runs, a scaling failed":       {[]build.Option{resize(api.Moving), scaling(api.Failed)}, "Resize Moving, Scale Failed"},
		"a scaling runs, a resize failed":       {[]build.Option{resize(api.Failed), scaling(api.Scaling)}, "Scale Scaling, Resize Failed"},
		"everything has succeeded":              {[]build.Option{resize(api.Succeeded), cleanup(api.Succeeded), scaling(api.Succeeded)}, ""},
		"its owner stays paused after a resize": {[]build.Option{request, paused}, "Resize Succeeded"},
		"a set sleeps, and nothing else":        {[]build.Option{build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep))}, ""},
		"a user withdrew a failed resize":       {[]build.Option{withdrawn(api.Failed)}, ""},
		"a user withdrew a refused resize":      {[]build.Option{withdrawn(api.Refused)}, ""},
		"a resize failed, and the request that replaces it is invalid": {[]build.Option{build.Resize("data=25Gb"),
			withdrawn(api.Failed)}, "Resize Failed"},
		"a user aborted a resize": {[]build.Option{request, aborted}, ""},
		"a rollback was refused": {[]build.Option{build.Status(build.Operation(api.Refused, build.RollbackOf(build.ID)))},
			"Rollback Refused"},
		"a sleep has ended as it should":     {[]build.Option{build.WithSleep(build.Sleep(api.Succeeded))}, ""},
		"a resize and a cleanup have failed": {[]build.Option{resize(api.Failed), cleanup(api.Failed)}, "Resize Failed, Cleanup Failed"},
	} {
		var shown []string
		for _, o := range New(factsOf(build.Set("web", row.options...)), build.Now).Sets[0].Operations {
			shown = append(shown, string(o.Kind)+" "+string(o.Phase))
		}
		if got := strings.Join(shown, ", "); got != row.want {
			t.Errorf("%s: the list shows %q, want %q", situation, got, row.want)
		}
	}
}
