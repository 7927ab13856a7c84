package sift

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const retryAfter = 13 * time.Minute

// functionsWokenBySet returns the functions that a change of the set wakes at build.Now.
func functionsWokenBySet(t *testing.T, change string, set *appsv1.StatefulSet) string {
	t.Helper()
	l, err := Sift(changeEvent(t, change, "StatefulSet", set), build.Now, retryAfter)
	if err != nil {
		t.Fatal(err)
	}
	return joined(l.functions)
}

func joined(concerns []api.Function) string {
	var all []string
	for _, f := range concerns {
		all = append(all, string(f))
	}
	return strings.Join(all, " ")
}

// sweptSets returns the functions that a sweep a minute after build.Now wakes, as SET: FUNCTIONS.
func sweptSets(t *testing.T, objects ...metav1.Object) string {
	t.Helper()
	lists := build.EmptyLists()
	for _, o := range objects {
		plural := "statefulsets"
		if _, ok := o.(*appsv1.ControllerRevision); ok {
			plural = "controllerrevisions"
		}
		lists[plural] = append(lists[plural], o)
	}
	f := New(kube.NewClient(lists.Serve()), build.SleepSettings(), nil, slog.New(slog.DiscardHandler))
	found := newFindings(time.Unix(1, 0))
	now := build.Now.Add(time.Minute) // not a minute that checks paused owners
	if err := f.sweepSets(t.Context(), "", now, found); err != nil {
		t.Fatal(err)
	}
	if err := f.sweepJournals(t.Context(), "", now, found); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, ref := range found.order {
		all = append(all, ref.Name+": "+joined(found.notices[ref].functions))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// idleWeb returns a set with an idle timeout of one hour and no activity for two.
func idleWeb(options ...build.Option) *appsv1.StatefulSet {
	return idleSet("web", options...)
}

func idleSet(name string, options ...build.Option) *appsv1.StatefulSet {
	return build.Set(name, append(opts(build.IdleTimeout("1h"), build.LastActivity(2*time.Hour)), options...)...)
}

func sleepOf(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

// withoutAnnotation removes the annotation.
func withoutAnnotation(key string) build.Option {
	return func(o metav1.Object) {
		annotations := o.GetAnnotations()
		delete(annotations, key)
		o.SetAnnotations(annotations)
	}
}

// TestFunctionsWokenBySetWithIdleTimeout: an event of a set wakes idle-timeout when a sleep may begin.
// Invariants: I3, I6.
func TestFunctionsWokenBySetWithIdleTimeout(t *testing.T) {
	zero, used := build.Replicas(0), build.LastActivity(0)
	endedBefore, endedNow := build.SleepEnded(api.Aborted, retryAfter), build.SleepEnded(api.Aborted, time.Minute)
	retry := build.Annotation(api.RetryAnnotation, "")
	invalid := build.IdleTimeout("soon")
	reported := sleepOf(api.Refused, build.SleepReason(api.RequestInvalid, idle.MemberOf(build.Set("web", invalid)).InvalidMessage()))
	two := build.Annotation(api.WakeReplicasAnnotation, "2")
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"it was idle long enough": {updated, nil, "idle-timeout"},
		"it was active now":       {updated, opts(used), ""},
		"it has no idle timeout":  {updated, opts(withoutAnnotation(api.IdleTimeoutAnnotation)), ""},
		"its last activity is unknown": {updated, opts(withoutAnnotation(api.LastActivityAnnotation)),
			"idle-timeout"},
		"it is at zero, and its last activity is unknown": {updated, opts(withoutAnnotation(api.LastActivityAnnotation),
			zero), ""},
		"it is paused":                                {updated, opts(used, build.Paused()), "idle-timeout"},
		"it is paused and at zero":                    {updated, opts(build.Paused(), zero), ""},
		"another client has scaled it to zero":        {updated, opts(zero), ""},
		"at zero, with awake-until":                   {updated, opts(zero, build.AwakeFor(time.Hour)), ""},
		"at zero, with awake-until and wake-replicas": {updated, opts(zero, build.AwakeFor(time.Hour), two), "idle-timeout"},
		"at zero, with wake-replicas only":            {updated, opts(zero, two), ""},
		"the set has not opted in":                    {updated, opts(build.Label(api.ManagedLabel, "")), ""},
		"it is being deleted":                         {updated, opts(build.Deleting()), ""},
		"it was deleted":                              {deleted, nil, ""},
		"a resize is active": {updated,
			opts(build.Status(build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0"))), zero), "backup"},
		"a resize is being reverted": {updated, opts(build.Status(build.Operation(api.Reverting)),
			zero), "restore"},
		"the resize record cannot be read": {updated, opts(build.Annotation(api.StatusAnnotation, "{")),
			"detect-resize"},
		"a resize is requested as well":                              {updated, opts(build.Resize("x=1Gi")), "detect-resize idle-timeout"},
		"its sleep failed a minute ago":                              {updated, opts(sleepOf(api.Failed, endedNow)), ""},
		"its sleep failed a minute ago, and a user asks for a retry": {updated, opts(sleepOf(api.Failed, endedNow), retry), "idle-timeout"},
		"its sleep failed before the retry interval":                 {updated, opts(sleepOf(api.Failed, endedBefore)), "idle-timeout"},
		"its sleep has ended, and it was active now": {updated, opts(sleepOf(api.Succeeded, build.SleepEnded(api.Awake, 0)),
			used), ""},
		"an invalid annotation":                   {updated, opts(invalid), "idle-timeout"},
		"an invalid annotation, already reported": {updated, opts(invalid, reported), ""},
		"an invalid annotation on a set at zero":  {updated, opts(invalid, zero), "idle-timeout"},
		"a corrected annotation":                  {updated, opts(reported), "idle-timeout"},
		"the sleep record cannot be read": {updated, opts(build.Annotation(api.SleepAnnotation, "{")),
			"idle-timeout"},
		"the sleep record belongs to another set": {updated, opts(sleepOf(api.Asleep), build.UID("uid-2"), used), ""},
		"keep-warm at this hour": {updated,
			opts(build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")), ""},
		"a resize waits for the end of a sleep": {updated, opts(build.Resize("x=1Gi"), sleepOf(api.Asleep), zero), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := functionsWokenBySet(t, row.change, idleWeb(row.options...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestFunctionsWokenBySetWithSleepRecord: an event of a set wakes the function that takes the next step of its sleep.
// Invariants: I4, I6.
func TestFunctionsWokenBySetWithSleepRecord(t *testing.T) {
	zero, used, abort, optOut := build.Replicas(0), build.LastActivity(0), build.Annotation(api.AbortAnnotation, ""),
		build.Label(api.ManagedLabel, "")
	left, unseen := build.ReplicaCounts(2, 2), build.NotObserved()
	stopped := build.OwnerStops()
	hasPaused := sleepOf(api.Asleep, build.SleepCause(idle.RequestPaused))
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"planned":                             {updated, opts(sleepOf(api.Planned)), "pause-owner"},
		"planned, and active now":             {updated, opts(sleepOf(api.Planned), used), "idle-timeout"},
		"planned, and aborted":                {updated, opts(sleepOf(api.Planned), abort), "idle-timeout"},
		"planned, and opted out":              {updated, opts(sleepOf(api.Planned), optOut), "idle-timeout"},
		"planned, and being deleted":          {updated, opts(sleepOf(api.Planned), build.Deleting()), ""},
		"stopping: it is not scaled down yet": {updated, opts(sleepOf(api.Stopping)), "idle-timeout scale"},
		"stopping: pods terminate":            {updated, opts(sleepOf(api.Stopping), zero, left), ""},
		"stopping: the StatefulSet controller has not observed the count": {updated, opts(sleepOf(api.Stopping), zero, unseen), ""},
		"stopping: all pods have ended":                                   {updated, opts(sleepOf(api.Stopping), zero), "idle-timeout"},
		"stopping: active now": {updated, opts(sleepOf(api.Stopping), zero, left, used),
			"idle-timeout"},
		"stopping: aborted": {updated, opts(sleepOf(api.Stopping), zero, left, abort),
			"idle-timeout"},
		"stopping: opted out": {updated, opts(sleepOf(api.Stopping), zero, left, optOut),
			"idle-timeout"},
		"stopping: another client restores the replicas": {updated, opts(sleepOf(api.Stopping), build.WithStop(build.Stop()),
			left), "idle-timeout"},
		"stopping: a new watch, for its deadline": {added, opts(sleepOf(api.Stopping), zero, left), "idle-timeout"},
		"asleep":                         {updated, opts(sleepOf(api.Asleep), zero), ""},
		"asleep: a new watch":            {added, opts(sleepOf(api.Asleep), zero), ""},
		"asleep: active before it slept": {updated, opts(sleepOf(api.Asleep), zero, build.LastActivity(61*time.Second)), ""},
		"asleep: active since":           {updated, opts(sleepOf(api.Asleep), zero, build.LastActivity(time.Minute)), "idle-timeout scale"},
		"asleep: aborted":                {updated, opts(sleepOf(api.Asleep), zero, abort), "idle-timeout scale"},
		"asleep: opted out":              {updated, opts(sleepOf(api.Asleep), zero, optOut), "idle-timeout scale"},
		"asleep: the idle timeout was removed": {updated, opts(sleepOf(api.Asleep), zero,
			withoutAnnotation(api.IdleTimeoutAnnotation)), "idle-timeout scale"},
		"asleep: keep-warm begins": {updated, opts(sleepOf(api.Asleep), zero,
			build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")), "idle-timeout scale"},
		"asleep: another client starts it": {updated, opts(sleepOf(api.Asleep)), "idle-timeout"},
		"asleep: an invalid annotation":    {updated, opts(sleepOf(api.Asleep), zero, build.IdleTimeout("x")), "idle-timeout scale"},
		"paused: active now":               {updated, opts(hasPaused, build.Paused(), zero, used), ""},
		"paused: the pause was removed":    {updated, opts(hasPaused, zero), "idle-timeout scale"},
		"waking: pods start":               {updated, opts(sleepOf(api.Waking), build.ReplicaCounts(1, 0)), ""},
		"waking: no pod of an owned set is ready": {updated, opts(sleepOf(api.Waking), build.ReplicaCounts(1, 0),
			build.ControlledBy("Database", "main")), "pause-owner"},
		"waking: the StatefulSet controller has not observed the count": {updated, opts(sleepOf(api.Waking), build.NotObserved(),
			build.ReplicaCounts(1, 0), build.ControlledBy("Database", "main")), ""},
		"waking: ready":                         {updated, opts(sleepOf(api.Waking)), "idle-timeout"},
		"waking: it waits for another set":      {updated, opts(sleepOf(api.Waking, build.Step(api.AwaitsDependency)), zero), ""},
		"waking: it was at zero before":         {updated, opts(sleepOf(api.Waking), zero), "scale"},
		"waking: its pods are stopped":          {updated, opts(sleepOf(api.Waking), zero, build.WithStop(build.Stop())), "scale"},
		"waking: a new watch, for its deadline": {added, opts(sleepOf(api.Waking), build.ReplicaCounts(1, 0)), "idle-timeout"},
		"waking by its operator: a new watch":   {added, opts(sleepOf(api.Waking, stopped), zero), "pause-owner idle-timeout"},
		"waking by its operator: pods start":    {updated, opts(sleepOf(api.Waking, stopped), build.ReplicaCounts(1, 0)), ""},
		"waking by its operator: ready":         {updated, opts(sleepOf(api.Waking, stopped)), "idle-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := functionsWokenBySet(t, row.change, idleWeb(row.options...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestWakingGroupMemberWakesPauseOwner: idle-timeout announces only the set that its event names. The update of another member must wake
// pause-owner, so that its operator starts that member.
func TestWakingGroupMemberWakesPauseOwner(t *testing.T) {
	set := idleWeb(build.InGroup("shop"), build.Replicas(0), sleepOf(api.Waking, build.OwnerStops()))
	if got := functionsWokenBySet(t, updated, set); !strings.Contains(got, "pause-owner") {
		t.Errorf("wakes %q", got)
	}
}

// TestGroupMemberWithoutOwnTimeoutWakesNoExtraFunction: the timeout of its group is not visible in the set, and no reason to wake it.
func TestGroupMemberWithoutOwnTimeoutWakesNoExtraFunction(t *testing.T) {
	for want, options := range map[string][]build.Option{
		"pause-owner": opts(sleepOf(api.Planned)),
		"":            opts(sleepOf(api.Asleep), build.Replicas(0)),
	} {
		set := build.Set("web", append(opts(build.InGroup("shop"), build.LastActivity(2*time.Hour)), options...)...)
		if got := functionsWokenBySet(t, updated, set); got != want {
			t.Errorf("wakes %q, want %q", got, want)
		}
	}
}

// TestSleepingSetThatLosesLabelWakesIdleTimeout: the watch reports a set without the label as deleted, in its last labelled state.
func TestSleepingSetThatLosesLabelWakesIdleTimeout(t *testing.T) {
	for _, phase := range []api.Phase{api.Planned, api.Stopping, api.Asleep, api.Waking} {
		got := functionsWokenBySet(t, deleted, idleWeb(sleepOf(phase), build.Replicas(0), build.ReplicaCounts(1, 1)))
		if !strings.Contains(got, "idle-timeout") {
			t.Errorf("%s: wakes %q, so nothing happens until the tick", phase, got)
		}
	}
}

// TestSweepFindsEveryUnfinishedSleep: the sweep wakes no function for other sets.
// Invariants: I6, I7.
func TestSweepFindsEveryUnfinishedSleep(t *testing.T) {
	zero, shop := build.Replicas(0), build.InGroup("shop")
	type list = []metav1.Object
	asked := sleepOf(api.Asleep, build.SleepCause(idle.RequestAsked))
	reported := func(set *appsv1.StatefulSet) build.Option {
		return sleepOf(api.Refused, build.SleepReason(api.RequestInvalid, idle.MemberOf(set).InvalidMessage()),
			build.SleepEnded(api.RequestInvalid, time.Hour))
	}
	for name, row := range map[string]struct {
		in   list
		want string
	}{
		"a set that was idle long enough": {list{idleWeb()}, "web: idle-timeout"},
		"a set that was active now":       {list{idleWeb(build.LastActivity(0))}, ""},
		"a set that has not opted in":     {list{idleWeb(build.Label(api.ManagedLabel, ""))}, ""},
		"a set that sleeps":               {list{idleWeb(zero, sleepOf(api.Asleep))}, ""},
		"a set that has slept for a year": {list{idleWeb(zero, sleepOf(api.Asleep, build.AsleepFor(8760*time.Hour)),
			build.LastActivity(8765*time.Hour))}, ""},
		"a set that is paused and sleeps": {list{idleWeb(zero, build.Paused(),
			sleepOf(api.Asleep, build.SleepCause(idle.RequestPaused)))}, ""},
		"a set at zero": {list{idleWeb(zero)}, ""},
		"a set whose probe has just failed": {list{idleWeb(build.Annotation(api.ActivityProbeAnnotation, "tcp:80"),
			sleepOf(api.Refused, build.SleepEnded(api.ProbeFailed, 0)))}, ""},
		"a set whose owner refused a sleep": {list{idleWeb(sleepOf(api.Refused, build.SleepEnded(api.OwnerNotPausable, 0)))},
			"web: pause-owner"},
		"planned": {list{idleWeb(sleepOf(api.Planned))}, "web: pause-owner"},
		"stopping": {list{idleWeb(zero, build.ReplicaCounts(1, 1), sleepOf(api.Stopping))},
			"web: idle-timeout"},
		"asleep, and another client has started it": {list{idleWeb(sleepOf(api.Asleep))}, "web: idle-timeout"},
		"asleep, and active since":                  {list{idleWeb(zero, build.LastActivity(0), sleepOf(api.Asleep))}, "web: idle-timeout"},
		"asleep, and keep-warm begins": {list{idleWeb(zero, build.Annotation(api.KeepWarmAnnotation,
			"Sun 12:00-13:00"), sleepOf(api.Asleep))}, "web: idle-timeout"},
		"waking": {list{idleWeb(build.ReplicaCounts(1, 0), sleepOf(api.Waking))}, "web: idle-timeout"},
		"waking by its operator": {list{idleWeb(zero, sleepOf(api.Waking, build.OwnerStops()))},
			"web: pause-owner idle-timeout"},
		"the sleep record cannot be read": {list{idleWeb(build.Annotation(api.SleepAnnotation, "{"))}, "web: idle-timeout"},
		"a planned resize and an ended sleep": {list{idleWeb(sleepOf(api.Succeeded),
			build.Status(build.Operation(api.Planned)))}, "web: pause-owner"},
		"a group that was idle long enough": {list{idleWeb(shop), idleSet("db", shop)},
			"db: idle-timeout, web: idle-timeout"},
		"a group with an active member": {list{idleWeb(shop), idleSet("db", shop, build.LastActivity(0))}, ""},
		"a group with one idle timeout": {list{idleWeb(shop), idleSet("db", shop,
			withoutAnnotation(api.IdleTimeoutAnnotation))}, "db: idle-timeout, web: idle-timeout"},
		"a group that sleeps": {list{idleWeb(shop, zero, sleepOf(api.Asleep)),
			idleSet("db", shop, zero, sleepOf(api.Asleep))}, ""},
		"a group with one idle timeout sleeps": {list{idleWeb(shop, zero, sleepOf(api.Asleep)),
			idleSet("db", shop, zero, sleepOf(api.Asleep), withoutAnnotation(api.IdleTimeoutAnnotation))}, ""},
		"a sleeping group with an active member": {list{idleWeb(shop, zero, sleepOf(api.Asleep)),
			idleSet("db", shop, zero, sleepOf(api.Asleep), build.LastActivity(0))}, "db: idle-timeout, web: idle-timeout"},
		"a sleeping group with a paused member": {list{idleWeb(shop, zero, sleepOf(api.Asleep)),
			idleSet("db", shop, zero, build.Paused(), build.LastActivity(0), sleepOf(api.Asleep, build.SleepCause(idle.RequestPaused)))}, ""},
		"a group that falls asleep member by member": {list{idleWeb(shop, zero, asked),
			idleSet("db", shop, build.LastActivity(90*time.Second))}, "db: idle-timeout"},
		"two groups with the same name in two namespaces": {list{idleWeb(shop), elsewhere(idleSet("db", shop, build.LastActivity(0)))},
			"web: idle-timeout"},
		"a group with the name of another set": {list{idleWeb(), idleSet("db", build.InGroup("web"), build.LastActivity(0))},
			"web: idle-timeout"},
		"an invalid annotation, already reported": {list{idleWeb(build.IdleTimeout("x"),
			reported(idleWeb(build.IdleTimeout("x"))))}, ""},
		"a member whose last activity is unknown": {list{idleWeb(shop, build.LastActivity(0)), build.Set("db", shop)},
			"db: idle-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sweptSets(t, row.in...); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

func elsewhere(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set.Namespace = "payroll"
	return set
}

// TestReportedCircleOfGroupIsNotSweptAgain: idle-timeout has reported the circle on each set in it, and the group stays awake.
// Invariants: I7.
func TestReportedCircleOfGroupIsNotSweptAgain(t *testing.T) {
	shop := build.InGroup("shop")
	const circle = "drydock.dev/depends-on of StatefulSet shop/db is part of a dependency cycle; the set stays awake until that is corrected"
	reported := sleepOf(api.Refused, build.SleepReason(api.RequestInvalid, circle))
	if got := sweptSets(t, idleWeb(shop, build.DependsOn("db"), reported), idleSet("db", shop, build.DependsOn("web"), reported),
		idleSet("queue", shop)); got != "" {
		t.Errorf("wakes %q at every tick", got)
	}
}

// TestSleepJournalsWakeFunctionsThatEndSleep: the set was deleted, or has lost its label or its record.
// Invariants: I5, I7.
func TestSleepJournalsWakeFunctionsThatEndSleep(t *testing.T) {
	sleep := build.Sleep(api.Asleep)
	record := resources.MakeStopRecord(build.Set("web"), build.Stop())
	paused := resources.MakeOwnerRecord(build.Set("web"), sleep, api.PausedOwner{Version: api.PauseVersion, Resource: "redis",
		Name: "main", UID: types.UID("u")})
	lost := idleWeb(build.Replicas(0), sleepOf(api.Asleep), build.Label(api.ManagedLabel, ""))
	for name, row := range map[string]struct {
		in   []metav1.Object
		want []string
	}{
		"the set was deleted":                                {[]metav1.Object{record, paused}, []string{"idle-timeout", "pause-owner"}},
		"the set has lost its label":                         {[]metav1.Object{lost, record}, []string{"idle-timeout"}},
		"the set has lost its label, and an owner is paused": {[]metav1.Object{lost, paused}, []string{"idle-timeout", "pause-owner"}},
		"the sleep has ended": {[]metav1.Object{idleWeb(sleepOf(api.Succeeded), build.LastActivity(0)),
			record, paused}, []string{"idle-timeout", "pause-owner"}},
		"the set's replicas were restored": {[]metav1.Object{idleWeb(build.ReplicaCounts(1, 0), sleepOf(api.Waking)),
			record, paused}, []string{"idle-timeout", "pause-owner"}},
		"the set sleeps, and has lost its stop": {[]metav1.Object{idleWeb(build.Replicas(0), sleepOf(api.Asleep)), record},
			[]string{"scale"}},
		"the set sleeps, and nothing is wrong": {[]metav1.Object{idleWeb(build.Replicas(0), sleepOf(api.Asleep),
			build.WithStop(build.Stop())), record, paused}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := sweptSets(t, row.in...)
			for _, function := range row.want {
				if !strings.Contains(got, function) {
					t.Errorf("wakes %q, want %v", got, row.want)
				}
			}
			if len(row.want) == 0 && got != "" {
				t.Errorf("wakes %q", got)
			}
		})
	}
}

// TestMemberThatFellAsleepWakesIdleTimeoutForItsGroup: the set that it depends on may sleep next, without waiting for the tick.
func TestMemberThatFellAsleepWakesIdleTimeoutForItsGroup(t *testing.T) {
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"just now":                  {updated, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.AsleepFor(0))), "idle-timeout"},
		"a minute ago":              {updated, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.AsleepFor(time.Minute))), ""},
		"just now, for a new watch": {added, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.AsleepFor(0))), ""},
		"just now, without a group": {updated, opts(sleepOf(api.Asleep, build.AsleepFor(0))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := functionsWokenBySet(t, row.change, idleWeb(append(row.options, build.Replicas(0))...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}
