package idle

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestWhoIsConcernedDuringSleep: an event about a set calls a function only if that has work. The sweep finds deadlines, too.
func TestWhoIsConcernedDuringSleep(t *testing.T) {
	zero, used, never := build.Replicas(0), build.LastActivity(0), build.ReplicaCounts(3, 0)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, append([]func(*api.Sleep){build.SleepDue(time.Minute)}, options...)...))
	}
	stop := func(options ...func(*api.Stop)) build.Option { return build.WithStop(build.Stop(options...)) }
	refused := stop(build.NotStopped(), build.RefusedBy("the quota is used up"))
	notStarted := stop(build.RefusedBy("the quota is used up"))
	operated := build.ControlledBy("Database", "main")
	ending, operators := build.ReplicaCounts(2, 2), build.OwnerStops()
	optedOut := build.Label(api.ManagedLabel, "")
	const none, idleTimeout, pauseOwner, both = "[]", "[idle-timeout]", "[pause-owner]", "[pause-owner idle-timeout]"
	const starts = "[idle-timeout scale]"
	type options = []build.Option
	for name, row := range map[string]struct {
		options      options
		event, sweep string
	}{
		"the sleep was decided":                   {options{sleep(api.Planned)}, pauseOwner, pauseOwner},
		"the sleep was decided, and it is used":   {options{sleep(api.Planned), used}, idleTimeout, idleTimeout},
		"scale has yet to stop it":                {options{sleep(api.Stopping)}, idleTimeout, idleTimeout},
		"its pods end":                            {options{sleep(api.Stopping), zero, ending, stop()}, none, idleTimeout},
		"its pods end, and it is used":            {options{sleep(api.Stopping), zero, ending, stop(), used}, idleTimeout, idleTimeout},
		"its pods have ended":                     {options{sleep(api.Stopping), zero, stop()}, idleTimeout, idleTimeout},
		"the API server has rejected the stop":    {options{sleep(api.Stopping), zero, ending, refused}, idleTimeout, idleTimeout},
		"it sleeps":                               {options{sleep(api.Asleep), zero, stop()}, none, none},
		"it sleeps, and another client starts it": {options{sleep(api.Asleep), stop()}, idleTimeout, idleTimeout},
		"it sleeps, and it is used":               {options{sleep(api.Asleep), zero, stop(), used}, starts, idleTimeout},
		"it has yet to be started":                {options{sleep(api.Waking), zero, stop()}, none, idleTimeout},
		"the API server has rejected the start":   {options{sleep(api.Waking), zero, notStarted}, idleTimeout, idleTimeout},
		"it starts":                               {options{sleep(api.Waking), never, stop(build.StartedFor(time.Second))}, none, idleTimeout},
		"it starts, and its owner is paused":      {options{sleep(api.Waking), never, operated}, pauseOwner, idleTimeout},
		"it is ready":                             {options{sleep(api.Waking), stop(build.StartedFor(time.Second))}, idleTimeout, idleTimeout},
		"its operator has to start it":            {options{sleep(api.Waking, operators), zero}, pauseOwner, both},
		"its operator has started it":             {options{sleep(api.Waking, operators)}, idleTimeout, both},
		"it is opted out while its pods end":      {options{sleep(api.Stopping), zero, stop(), optedOut}, idleTimeout, idleTimeout},
		"its annotations become invalid":          {options{sleep(api.Asleep), zero, stop(), build.IdleTimeout("x")}, starts, idleTimeout},
		"its sleep cannot be read":                {options{zero, build.Annotation(api.SleepAnnotation, "{")}, idleTimeout, idleTimeout},
		"it is being deleted":                     {options{sleep(api.Waking), zero, stop(), build.Deleting()}, none, none},
		"it has lost its sleep":                   {options{zero, stop()}, idleTimeout, idleTimeout},
		"it has lost its sleep, and is opted out": {options{zero, stop(), optedOut}, none, none},
		"its Scaler is paused, and a visit comes": {options{zero, stop(build.StoppedByScaler(build.ID)), build.AwakeFor(time.Hour)}, none, none},
	} {
		set := build.Set("web", append([]build.Option{build.Replicas(3), build.IdleTimeout("1h"), build.LastActivity(2 * time.Hour)},
			row.options...)...)
		c := operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Retry: 13 * time.Minute}
		if got := fmt.Sprint(Concerned(c)); got != row.event {
			t.Errorf("%s: an event concerns %s, want %s", name, got, row.event)
		}
		c.Swept = true
		if got := fmt.Sprint(Group{MemberOf(set)}.Concerned(c)[0]); got != row.sweep {
			t.Errorf("%s: the sweep concerns %s, want %s", name, got, row.sweep)
		}
	}
}

// TestRefusedSleepIsJudgedWhenSetChanges: a change of what led to the refusal concerns idle-timeout at once. The sweep asks the owners
// again, because another cause sends no event: each minute in the first hour, later every ten minutes.
func TestRefusedSleepIsJudgedWhenSetChanges(t *testing.T) {
	idleFor, used := build.LastActivity(2*time.Hour), build.LastActivity(0)
	concerned := func(reason api.Reason, ended time.Duration, swept bool, options ...build.Option) string {
		set := build.Set("web", build.IdleTimeout("1h"), idleFor, build.Annotation(api.ActivityProbeAnnotation, "tcp:80"))
		refused := build.Sleep(api.Refused, build.SleepEnded(reason, ended))
		refused.RefusalDigest = operation.RefusalDigest(set)
		for _, option := range append([]build.Option{build.WithSleep(refused)}, options...) {
			option(set)
		}
		c := operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: swept, PreviousSweep: build.Now.Add(-time.Minute),
			Retry: 10 * time.Minute}
		found := Concerned(c)
		if swept {
			found = Group{MemberOf(set)}.Concerned(c)[0]
		}
		return fmt.Sprint(found)
	}
	resized := build.Status(build.Operation(api.Moving))
	rollOut := func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "web-2" }
	ignore, probe := build.Annotation(api.OwnerPolicyAnnotation, "ignore"), build.Annotation(api.ActivityProbeAnnotation, "tcp:81")
	for name, row := range map[string]struct{ got, want string }{
		"nothing changes":                      {concerned(api.OwnerNotPausable, time.Minute, false), "[]"},
		"a foreign annotation changes":         {concerned(api.OwnerNotPausable, time.Minute, false, build.Annotation("a/b", "c")), "[]"},
		"the owner is ignored":                 {concerned(api.OwnerNotPausable, time.Minute, false, ignore), "[idle-timeout]"},
		"the set joins a group":                {concerned(api.OwnerNotPausable, time.Minute, false, build.InGroup("shop")), "[idle-timeout]"},
		"the pod template changes":             {concerned(api.OwnerNotPausable, time.Minute, false, build.Edit(rollOut)), "[idle-timeout]"},
		"Drydock scales the set":               {concerned(api.OwnerNotPausable, time.Minute, false, build.Generation(6)), "[]"},
		"the probe changes":                    {concerned(api.ProbeFailed, time.Minute, false, probe), "[idle-timeout]"},
		"the sweep":                            {concerned(api.OwnerNotPausable, time.Minute, true), "[pause-owner]"},
		"the sweep, after the owner's policy":  {concerned(api.OwnerNotPausable, time.Minute, true, ignore), "[idle-timeout]"},
		"the sweep of a set in use":            {concerned(api.OwnerNotPausable, time.Minute, true, used), "[pause-owner]"},
		"the sweep after a probe that failed":  {concerned(api.ProbeFailed, time.Minute, true), "[]"},
		"the sweep after the cause is gone":    {concerned(api.CauseGone, time.Minute, true), "[idle-timeout]"},
		"a sweep long after the refusal":       {concerned(api.OwnerNotPausable, 61*time.Minute, true), "[]"},
		"the sweep while the set is resized":   {concerned(api.OwnerNotPausable, time.Minute, true, resized), "[]"},
		"the sweep of a set that is opted out": {concerned(api.OwnerNotPausable, time.Minute, true, build.Label(api.ManagedLabel, "")), "[]"},
	} {
		if row.got != row.want {
			t.Errorf("%s: concerns %s, want %s", name, row.got, row.want)
		}
	}
}

// TestCycleCallsNoFunctionWithEachEvent: web and db depend on each other, and that was reported. Both are in use. An event about web (its
// status changed) calls no function.
func TestCycleCallsNoFunctionWithEachEvent(t *testing.T) {
	inUse := func(name, dependency string) *appsv1.StatefulSet {
		return build.Set(name, build.Replicas(3), build.IdleTimeout("1h"), build.LastActivity(time.Minute), build.InGroup("shop"),
			build.DependsOn(dependency))
	}
	web, db := inUse("web", "db"), inUse("db", "web")
	m := *Group{MemberOf(web), MemberOf(db)}.InWakeOrder().Find("web")
	refused := build.Sleep(api.Refused, func(s *api.Sleep) {
		s.Step, s.Reason, s.Message, s.Finished = api.AwaitsCorrection, api.RequestInvalid, m.InvalidMessage(), operation.Moment(build.Now)
	})
	web = build.With(web, build.WithSleep(refused))
	change := operation.Change{Set: web, Records: operation.Of(web), Now: build.Now, Retry: time.Hour}
	if f := Concerned(change); len(f) > 0 {
		t.Errorf("each event about web calls %v, which has no work", f)
	}
}
