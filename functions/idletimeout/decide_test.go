package idletimeout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// check compares the decisions on the situations with the golden file of the test.
func check(t *testing.T, situations map[string]Input) {
	t.Helper()
	file := golden.Open(t)
	for _, situation := range slices.Sorted(maps.Keys(situations)) {
		t.Run(situation, func(t *testing.T) {
			in := situations[situation]
			file.Entry(t, situation, render(in, guarded(t, in)))
		})
	}
}

// guarded returns the decision. It checks the rules for every decision, and that the decision changes no observed set.
func guarded(t *testing.T, in Input) plan.Plan {
	t.Helper()
	before := observed(in)
	p := build.Guard(t, api.IdleTimeout, build.World(), func() plan.Plan { return Decide(in) }, objectsOf(in)...)
	if after := observed(in); after != before {
		t.Errorf("the decision changed what was observed, from\n%s\nto\n%s", before, after)
	}
	return p
}

// objectsOf returns the observed objects that a plan may write.
func objectsOf(in Input) []metav1.Object {
	var objects []metav1.Object
	for _, m := range in.Group {
		objects = append(objects, m.Set)
	}
	return objects
}

// observed renders the sets of the group completely.
func observed(in Input) string {
	var b strings.Builder
	for _, m := range in.Group {
		fmt.Fprint(&b, m.Set.Annotations, m.Set.Spec, m.Sleep)
	}
	return b.String()
}

// render returns the golden entry of a decision: the sets of the group, and the plan.
func render(in Input, p plan.Plan) string {
	var b strings.Builder
	for _, m := range in.Group {
		fmt.Fprintf(&b, "set %s: replicas %d, %d ready\n", m.Set.Name, statefulset.Replicas(m.Set), m.Set.Status.ReadyReplicas)
		if m.Sleep != nil {
			fmt.Fprintf(&b, "has: %s\n", build.Words(m.Sleep))
		}
		if m.Stop != nil {
			fmt.Fprintf(&b, "stop: %s\n", build.Words(m.Stop))
		}
	}
	return b.String() + build.Plan(p, build.World(), objectsOf(in)...)
}

// on returns the input for an event about the first set.
func on(sets ...*appsv1.StatefulSet) Input {
	in := Input{Now: build.Now, Name: "web", Settings: build.SleepSettings(), Probes: map[string]ProbeResult{}}
	for _, s := range sets {
		in.Group = append(in.Group, idle.MemberOf(s))
	}
	if len(sets) > 0 {
		in.Name = sets[0].Name
	}
	return in
}

// withSignal returns the input with an event of the type and age.
func (in Input) withSignal(eventType string, ago time.Duration) Input {
	in.Signal = Signal{Type: eventType, At: in.Now.Add(-ago)}
	return in
}

// withProbe returns the input with the result of the set's activity probe.
func (in Input) withProbe(set string, probed ProbeResult) Input {
	in.Probes = map[string]ProbeResult{set: probed}
	return in
}

// withRejected returns the input after the API server rejected a write for the set permanently.
func (in Input) withRejected(set string) Input {
	in.Failures = plan.Failures{{Action: plan.Action{Resource: plan.StatefulSets, Name: set}, Err: fault.Permanent(errors.New("no"))}}
	return in
}

// web returns a set with three replicas and a timeout of an hour that was last used two hours ago.
func web(options ...build.Option) *appsv1.StatefulSet { return member("web", options...) }

func member(name string, options ...build.Option) *appsv1.StatefulSet {
	return build.Set(
		name,
		append([]build.Option{build.Replicas(3), build.IdleTimeout("1h"), build.LastActivity(2 * time.Hour)}, options...)...)
}

func sleep(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

// stopped stores the stop by scale for the sleep of the set.
func stopped(options ...func(*api.Stop)) build.Option { return build.WithStop(build.Stop(options...)) }

var (
	abort  = build.Annotation(api.AbortAnnotation, "")
	retry  = build.Annotation(api.RetryAnnotation, "")
	probed = build.Annotation(api.ActivityProbeAnnotation, "tcp:5432")
	optOut = build.Label(api.ManagedLabel, "")
	zero   = build.Replicas(0)
	shop   = build.InGroup("shop")
)

func without(key string) build.Option {
	return func(o metav1.Object) {
		annotations := o.GetAnnotations()
		delete(annotations, key)
		o.SetAnnotations(annotations)
	}
}

// Invariants: I3, I4.
func TestStartOfSleep(t *testing.T) {
	partition := func(n int32, updated int32) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
			s.Status.CurrentRevision, s.Status.UpdateRevision, s.Status.UpdatedReplicas = "a", "b", updated
		})
	}
	onDelete := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		s.Status.CurrentRevision, s.Status.UpdateRevision = "a", "b"
	})
	failed := sleep(api.Failed, build.SleepEnded(api.Aborted, 12*time.Minute))
	check(t, map[string]Input{
		"there is no set":                        on(),
		"the set is being deleted":               on(web(build.Deleting())),
		"it is not opted in":                     on(web(optOut)),
		"nothing was active":                     on(web()),
		"it was active":                          on(web(build.LastActivity(time.Minute))),
		"the set has no timeout":                 on(web(without(api.IdleTimeoutAnnotation))),
		"another client scaled the set to zero":  on(web(zero)),
		"the set is paused and at zero":          on(web(build.Paused(), zero)),
		"a resize runs":                          on(web(build.Status(build.Operation(api.Moving)))),
		"a resize is being reverted":             on(web(build.Status(build.Operation(api.Reverting)))),
		"a resize has ended":                     on(web(build.Status(build.Operation(api.Succeeded)))),
		"the record of the resize is unreadable": on(web(build.Annotation(api.StatusAnnotation, "{"))),
		"the resize belongs to another set": on(
			web(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set.UID = "uid-2" })))),
		"the controller has not seen it":        on(web(build.NotObserved())),
		"replicas are still being created":      on(web(build.ReplicaCounts(2, 2))),
		"a rollout runs":                        on(web(partition(0, 2))),
		"a rollout up to a partition":           on(web(partition(2, 0))),
		"the rollout has reached its partition": on(web(partition(2, 1))),
		"the partition is above all replicas":   on(web(partition(5, 0))),
		"a rollout with strategy OnDelete":      on(web(onDelete)),
		"no replica is ready":                   on(web(build.ReplicaCounts(3, 0))),
		"the sleep before this one ended":       on(web(sleep(api.Succeeded, build.ReadyFor(2*time.Hour)))),
		"the sleep belongs to another set": on(
			web(build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, func(s *api.Sleep) { s.Set.UID = "uid-2" }).Encode()))),
		"a sleep failed recently": on(web(failed)),
		"a sleep failed recently, and the set has the retry annotation": on(web(failed, retry)),
		"a sleep failed recently, and a retry event arrives":            on(web(failed)).withSignal(events.Retry, 0),
		"a sleep failed recently, and the retry event names another member": on(member("db", shop, build.LastActivity(3*time.Hour)),
			web(shop, failed)).withSignal(events.Retry, 0),
		"a sleep failed recently, and the retry annotation belongs to a resize": on(web(failed, retry, build.Resize("data=1Gi"))),
		"a sleep failed long ago":  on(web(sleep(api.Failed, build.SleepEnded(api.Aborted, 13*time.Minute)))),
		"the set was scaled since": on(web(build.Replicas(5))),
		"the set has no replica count": on(
			web(build.Replicas(1), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }))),
		"it is paused":                                              on(web(build.Paused(), build.LastActivity(0))),
		"a sleep is requested":                                      on(web(build.LastActivity(time.Minute))).withSignal(events.Sleep, 0),
		"a sleep was requested before the last use":                 on(web(build.LastActivity(time.Minute))).withSignal(events.Sleep, time.Hour),
		"a sleep is requested in the second of a use: the use wins": on(web(build.LastActivity(0))).withSignal(events.Sleep, 0),
		"a sleep is requested for a set without a timeout":          on(web(without(api.IdleTimeoutAnnotation))).withSignal(events.Sleep, 0),
	})
	in := on(web())
	in.Trace = "00-trace"
	if got := build.StoredSleep(Decide(in)); got.Trace != "00-trace" || !in.mayStartSleep() {
		t.Errorf("the new sleep has the trace %q", got.Trace)
	}
	for _, in := range []Input{
		on(web(build.LastActivity(0))), on(web(zero)), on(web(sleep(api.Asleep, build.AsleepFor(time.Hour)), zero)), on(),
	} {
		if in.mayStartSleep() {
			t.Error("no sleep may start")
		}
	}
}

// TestHandleAtZero: a set at zero without a sleep starts if it is needed and its count is known. The stop of a paused Scaler that was
// deleted has it.
func TestHandleAtZero(t *testing.T) {
	two := build.Annotation(api.WakeReplicasAnnotation, "2")
	bare := []build.Option{without(api.IdleTimeoutAnnotation), without(api.LastActivityAnnotation), zero}
	ofScaler, operated := stopped(build.StoppedByScaler(build.ID)), build.ControlledBy("Database", "main")
	failed := sleep(api.Failed, build.SleepEnded(api.NotReady, time.Hour))
	with := func(options ...build.Option) Input { return on(web(append(slices.Clone(bare), options...)...)) }
	check(t, map[string]Input{
		"a wake event":                        with(two).withSignal(events.Wake, 0),
		"an activity event":                   with(two).withSignal(events.Activity, 0),
		"awake-until is in the future":        with(two, build.AwakeFor(time.Hour)),
		"the set is not needed":               with(two),
		"no replica count is known":           with().withSignal(events.Wake, 0),
		"an owner controls the set":           with(two, operated).withSignal(events.Wake, 0),
		"it is paused":                        with(two, build.Paused()).withSignal(events.Wake, 0),
		"it runs":                             with(two, build.Replicas(1)).withSignal(events.Wake, 0),
		"Drydock put the set to sleep before": with(two, sleep(api.Succeeded, func(s *api.Sleep) { s.Attempt = 6 })).withSignal(events.Wake, 0),
		"an old wake event":                   with(two).withSignal(events.Wake, time.Hour),
		"its paused Scaler was deleted":       with(two, ofScaler).withSignal(events.Wake, 0),
		"its paused Scaler was deleted, and the set is not needed":   with(two, ofScaler),
		"its paused Scaler was deleted, and an operator controls it": with(ofScaler, operated).withSignal(events.Wake, 0),
		"its Scaler is paused": on(scaledByPilot(web(append(bare, ofScaler)...))).withScaler(true).withSignal(
			events.Wake, 0),
		"the pods of a failed wake-up have not been asked back": with(stopped(), failed).withSignal(events.Wake, 0),
		"the pods of a failed wake-up were asked back, and it is at zero": with(stopped(build.StartedFor(time.Second)), failed).withSignal(
			events.Wake, 0),
	})
	t.Run("a set with its own timeout wakes too", func(t *testing.T) {
		// The first step may store the use. The second step wakes the set.
		set := web(two, zero)
		in := on(set).withSignal(events.Wake, 0)
		p := Decide(in)
		if p.Reason == api.ActivityNoted {
			build.With(set, build.LastActivity(0))
			p = Decide(on(set).withSignal(events.Wake, 0))
		}
		if next := build.StoredSleep(p); next == nil || next.Phase != api.Waking || next.Replicas != 2 {
			t.Errorf("%s: %s", p, build.Words(next))
		}
	})
}

func TestGroupSleepsAndWakesTogether(t *testing.T) {
	asleep := []build.Option{shop, zero, stopped(), sleep(api.Asleep, build.AsleepFor(30*time.Second))}
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	front := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{shop, build.DependsOn("db")}, options...)...)
	}
	asks := sleep(api.Asleep, build.SleepCause(idle.RequestAsked), build.AsleepFor(30*time.Second))
	said := sleep(api.Refused, build.SleepEnded(api.RequestInvalid, time.Hour), func(s *api.Sleep) {
		s.Message = "drydock.dev/depends-on of StatefulSet shop/db is part of a dependency cycle; the set stays awake until that is corrected"
	})
	check(t, map[string]Input{
		"other members come first, without an announcement": on(web(shop), db()),
		"then the member that the event names":              on(web(shop), db(sleep(api.Planned))),
		"a dependency is awake while its dependents are":    on(db(), front()),
		"a dependent is being stopped": on(
			db(), front(sleep(api.Stopping), stopped(), build.ReplicaCounts(3, 3), zero, build.ReplicaCounts(2, 2))),
		"a dependent is at zero and not asleep yet":    on(db(), front(sleep(api.Planned, build.OwnerStops()), zero)),
		"all dependents are asleep":                    on(db(), front(asleep...)),
		"another client scaled the dependents to zero": on(db(), front(zero)),
		"a dependency is paused by the user":           on(db(build.Paused()), front(build.LastActivity(0))),
		"a paused member does not keep the group awake": on(
			web(
				shop,
			),
			db(build.Paused(), build.LastActivity(0), zero, sleep(api.Asleep, build.SleepCause(idle.RequestPaused), build.AsleepFor(time.Hour))),
		),
		"the use of one member wakes another": on(web(asleep...), db(build.LastActivity(0))),
		"a paused member stays asleep": on(
			db(
				zero,
				build.Paused(),
				sleep(api.Asleep, build.SleepCause(idle.RequestPaused), build.AsleepFor(time.Hour)),
			),
			web(shop, build.LastActivity(0)),
		),
		"a requested sleep continues member by member": on(
			front(zero, stopped(), asks, build.LastActivity(2*time.Minute)),
			db(build.LastActivity(2*time.Minute)),
		),
		"a use after the request wakes the group": on(db(build.LastActivity(0)), front(zero, stopped(), asks)),
		"a member waits until its dependency is ready": on(front(zero, sleep(api.Asleep, build.AsleepFor(0)), build.LastActivity(0)),
			db(build.ReplicaCounts(3, 2), sleep(api.Waking, build.SleepDue(time.Minute)))),
		"a dependency cycle":                                on(web(shop, build.DependsOn("db")), db(build.DependsOn("web"))),
		"a dependency cycle is reported once per member":    on(web(shop, build.DependsOn("db"), said), db(build.DependsOn("web"), said)),
		"a member outside the dependency cycle stays awake": on(web(shop), db(build.DependsOn("db"), said)),
		"a dependency outside the group":                    on(front()),
		"a member with a mistake keeps the group awake": on(
			web(shop), db(build.IdleTimeout("x"), sleep(api.Refused, build.SleepEnded(api.RequestInvalid, 0),
				func(s *api.Sleep) { s.Message = idle.MemberOf(db(build.IdleTimeout("x"))).InvalidMessage() }))),
		"the last use of a member is unknown": on(web(shop), db(without(api.LastActivityAnnotation))),
		"a member that is being deleted":      on(web(shop), db(build.Deleting())),
		"a member whose volumes are resized": on(
			web(shop), db(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })))),
		"the set left its group": func() Input { in := on(db()); in.Name = "web"; return in }(),
	})
}

// TestEventOfAnyMemberAdvancesTheGroup: the next step is the same whichever member the event names. Only the announcement differs.
// Invariants: I6.
func TestEventOfAnyMemberAdvancesTheGroup(t *testing.T) {
	group := []*appsv1.StatefulSet{member("db", shop), member("queue", shop, build.DependsOn("db")), web(shop, build.DependsOn("queue"))}
	for _, about := range group {
		in := on(group...)
		in.Name = about.Name
		p := Decide(in)
		if p.Reason != api.SleepDecided || p.Actions[0].Name != "web" || (p.Announce != "") != (about.Name == "web") {
			t.Errorf("an event about %s: %s", about.Name, p)
		}
	}
}

// TestRejectedMemberIsSkipped: the other members continue without a member whose write the API server has rejected. That member gets its
// step with its own event.
func TestRejectedMemberIsSkipped(t *testing.T) {
	mistaken := member("db", shop, build.IdleTimeout("soon"))
	asleep := web(shop, zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour)))
	if p := Decide(on(asleep, mistaken)); p.Reason != api.RequestInvalid || p.Actions[0].Name != "db" {
		t.Errorf("before the rejection: %s", p)
	}
	if p := Decide(on(asleep, mistaken).withRejected("db")); p.Reason != api.WakingUp || p.Actions[0].Name != "web" {
		t.Errorf("after the rejection: %s", p)
	}
	if p := Decide(on(mistaken, asleep).withRejected("db")); p.Reason != api.WakingUp || p.Actions[0].Name != "web" {
		t.Errorf("at its own event, which wakes web first: %s", p)
	}
	if p := Decide(on(mistaken).withRejected("db")); p.Reason != api.RequestInvalid {
		t.Errorf("at its own event: %s", p)
	}
}

// TestSetWithoutReplicaCountHasOneReplica: the API server defaults spec.replicas to 1.
func TestSetWithoutReplicaCountHasOneReplica(t *testing.T) {
	set := web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Status.Replicas, s.Status.ReadyReplicas = nil, 1, 1 }))
	if sleep := build.StoredSleep(Decide(on(set))); sleep == nil || sleep.Replicas != 1 {
		t.Errorf("%+v", sleep)
	}
	set.Spec.Replicas = ptr.To[int32](0)
	if p := Decide(on(set)); p.Reason != api.AtZeroAlready {
		t.Errorf("%s", p)
	}
}

// TestRequestedSleepOfGroupStays: an event requested the sleep of a group during a session, and was delivered late.
func TestRequestedSleepOfGroupStays(t *testing.T) {
	active := build.LastActivity(5 * time.Minute)
	ended := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(build.Now.Add(-10*time.Second)))
	a, b := web(shop, active, ended), member("db", shop, active)
	in := on(a, b).withSignal(events.Sleep, time.Minute)
	var stored *api.Sleep
	p := Decide(in)
	stored = build.StoredSleep(p)
	if stored == nil {
		t.Fatal("no sleep")
	}
	name := "web"
	if p.Actions[0].Name == "db" {
		name = "db"
	}
	if name == "web" {
		a = web(shop, active, ended, build.WithSleep(stored))
	} else {
		b = member("db", shop, active, build.WithSleep(stored))
	}
	in = on(a, b)
	in.Name = name
	in.Now = in.Now.Add(5 * time.Second)
	p = Decide(in)
	if s := build.StoredSleep(p); s != nil && s.Phase == api.Waking {
		t.Errorf("the requested sleep wakes again: %s: %s", p, build.Words(s))
	}
}

func TestDependencyStartsFirst(t *testing.T) {
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	waiting := sleep(api.Waking, build.AsleepFor(time.Hour), due, build.SleepReason(api.DependencyFirst,
		"web was active; the set waits until db is ready"))
	front := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{shop, build.DependsOn("db"), stopped(), waiting}, options...)...)
	}
	starting := []build.Option{build.ReplicaCounts(3, 1), sleep(api.Waking, due)}
	check(t, map[string]Input{
		"the dependency is starting": on(front(zero), db(starting...)),
		"the dependency is at zero":  on(front(zero), db(zero, stopped(), sleep(api.Waking, due))),
		"the dependency does not become ready in time": on(build.With(front(zero), sleep(api.Waking, build.SleepDue(-time.Second),
			build.AsleepFor(time.Hour), build.SleepReason(api.DependencyFirst, ""))), db(starting...)),
		"the dependency is ready": on(front(zero), db(sleep(api.Succeeded, build.ReadyFor(0)))),
		"another client started the set before its dependency was ready": on(front(build.ReplicaCounts(3, 2)), db(starting...)),
		"the set is ready before its dependency":                         on(front(), db(starting...)),
		"the dependency wakes first": on(
			db(zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour))),
			front(zero),
		),
	})
}

// TestSetDoesNotWaitForeverForDependency: the replicas are restored (I4), and the reason is reported.
// Invariants: I8.
func TestSetDoesNotWaitForeverForDependency(t *testing.T) {
	asleep := []build.Option{shop, zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour))}
	group := func(of []build.Option, more ...build.Option) []build.Option {
		return append(append([]build.Option{}, of...), more...)
	}
	broken := "broken"
	for name, sets := range map[string][]*appsv1.StatefulSet{
		"the dependency becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...), member("db", asleep...)},
		"the user paused the dependency": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, zero, build.Paused(), stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour),
				build.SleepCause(idle.RequestPaused)))},
		"another client scaled the dependency to zero": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, zero)},
		"the dependency never becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", group(asleep, build.Label(broken, "yes"))...)},
		"the dependency runs and never becomes ready": {web(group(asleep, build.DependsOn("db"), build.LastActivity(0))...),
			member("db", shop, build.ReplicaCounts(3, 1), build.Label(broken, "yes"))},
		"a dependency cycle was written during the sleep": {web(group(asleep, build.DependsOn("db"))...),
			member("db", group(asleep, build.DependsOn("web"))...)},
		"an unknown dependency was written during the sleep": {web(group(asleep, build.DependsOn("cache"))...), member("db", asleep...)},
		"the operator starts the set, and its dependency is at zero": {
			web(shop, zero, build.DependsOn("db"), build.LastActivity(0), build.Label(broken, "yes"),
				sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops())),
			member("db", shop, zero)},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulation{t: t, now: build.Now, sets: sets}
			s.runUntil(3*time.Hour, func() bool { return !s.sleepOf("web").Active() })
			sleep := s.sleepOf("web")
			if sleep.Active() || !sleep.OwnerStops && statefulset.Replicas(s.sets[0]) != 3 {
				t.Errorf("after three hours web has %d replicas, its sleep is %s %s (%s)\n%s", statefulset.Replicas(s.sets[0]), sleep.Phase,
					sleep.Reason, sleep.Message, strings.Join(s.log, "\n"))
			}
		})
	}
}

// TestSetDoesNotWaitForDependencyThatStaysAtZero: the set starts without it.
func TestSetDoesNotWaitForDependencyThatStaysAtZero(t *testing.T) {
	front := web(shop, zero, build.DependsOn("db"), build.LastActivity(0), sleep(api.Asleep, build.AsleepFor(time.Hour)))
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	for name, row := range map[string]struct {
		db    *appsv1.StatefulSet
		waits bool
	}{
		"a user scaled the dependency to zero": {db(zero), false},
		"the dependency is paused": {
			db(zero, build.Paused(), sleep(api.Asleep, build.AsleepFor(time.Hour))), false,
		},
		"the dependency is awake with one of three replicas ready": {db(build.ReplicaCounts(3, 1)), false},
		"the dependency runs without a ready replica":              {db(build.ReplicaCounts(3, 0)), true},
		"the dependency wakes":                                     {db(build.ReplicaCounts(3, 1), sleep(api.Waking, due)), true},
		"the dependency wakes, and one ready replica is enough": {
			db(build.ReplicaCounts(3, 1), sleep(api.Waking, due), build.Annotation(api.WakeReadyAnnotation, "first")), false},
		"the paused Scaler of the dependency was deleted": {db(zero, stopped(build.StoppedByScaler(build.ID))), false},
		"the dependency can be woken":                     {db(zero, build.Annotation(api.WakeReplicasAnnotation, "1")), true},
	} {
		t.Run(name, func(t *testing.T) {
			in := on(front, row.db)
			in.Group = in.Group.InWakeOrder()
			if got := unreadyDependency(in.Group, *in.Group.Find("web")) != ""; got != row.waits {
				t.Errorf("waits: %v", got)
			}
		})
	}
}

// TestDeletedDependencyDelaysNoWakeUp: db is being deleted (drydock.dev/cleanup, or a foreground deletion), so Drydock never starts it.
// docs/sleep.md: no set waits for a set that stays at zero.
func TestDeletedDependencyDelaysNoWakeUp(t *testing.T) {
	asleep := sleep(api.Asleep, build.AsleepFor(time.Hour))
	in := on(web(shop, zero, build.DependsOn("db"), stopped(), asleep, build.LastActivity(0)),
		member("db", shop, zero, stopped(), asleep, build.Deleting()))
	if p := Decide(in); build.StoredSleep(p) == nil || build.StoredSleep(p).Reason == api.DependencyFirst {
		t.Errorf("web waits for a set that nothing starts, for DRYDOCK_READY_TIMEOUT: %s", p)
	}
}

// TestDependencyStopsAfterDeletedDependent: docs/sleep.md: a dependency stops after its dependents. web is being deleted, a finalizer
// holds it, and its pods run: the StatefulSet controller stops no pod of such a set.
func TestDependencyStopsAfterDeletedDependent(t *testing.T) {
	if p := Decide(on(member("db", shop), web(shop, build.DependsOn("db"), build.Deleting()))); p.Reason == api.SleepDecided {
		t.Errorf("3 pods of web run, and its dependency is stopped: %s", p)
	}
}

// TestAbortOfSetThatWaitsForDependency: web depends on db, and both sleep. After an abort, web waits for db. The end of its sleep still
// says why it failed.
func TestAbortOfSetThatWaitsForDependency(t *testing.T) {
	asleep := sleep(api.Asleep, build.AsleepFor(time.Hour))
	dependent := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append(options, shop, build.DependsOn("db"))...)
	}
	starting := member("db", shop, build.LastActivity(0), build.ReplicaCounts(3, 0))
	ready := member("db", shop, build.LastActivity(0))
	waiting := build.StoredSleep(Decide(on(dependent(zero, stopped(), asleep, abort), starting)))
	if waiting == nil || waiting.Phase != api.Waking || waiting.Reason != api.DependencyFirst {
		t.Fatalf("%s", build.Words(waiting))
	}
	started := build.StoredSleep(Decide(on(dependent(zero, stopped(), build.WithSleep(waiting)), ready)))
	if started == nil || started.Reason != api.WakingUp {
		t.Fatalf("%s", build.Words(started))
	}
	ended := build.StoredSleep(Decide(on(dependent(stopped(build.StartedFor(time.Second)), build.WithSleep(started)), ready)))
	if ended == nil || ended.Phase != api.Failed || ended.Reason != api.Aborted || ended.Failure != nil ||
		!strings.Contains(ended.Message, "aborted at the user's request") {
		t.Errorf("%s", build.Words(ended))
	}
}
