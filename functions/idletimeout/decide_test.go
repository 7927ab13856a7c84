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
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
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
	for _, records := range in.Records {
		for _, r := range records {
			objects = append(objects, r.Revision)
		}
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
	}
	return b.String() + build.Plan(p, build.World(), objectsOf(in)...)
}

// on returns the input for an event about the first set. A set that Drydock scaled to zero has a record.
func on(sets ...*appsv1.StatefulSet) Input {
	in := Input{Now: build.Now, Name: "web", Settings: build.SleepSettings(), Probes: map[string]ProbeResult{}, Records: map[string][]Record{}}
	for _, s := range sets {
		m := idle.MemberOf(s)
		in.Group = append(in.Group, m)
		if m.Sleep.Active() && m.Sleep.ScaledToZeroAt != nil {
			in.Records[s.Name] = []Record{recordOf(s, m.Sleep)}
		}
	}
	if len(sets) > 0 {
		in.Name = sets[0].Name
	}
	return in
}

// recordOf returns the record of the sleep.
func recordOf(set *appsv1.StatefulSet, sleep *api.Sleep) Record {
	revision := resources.MakeSleepRecord(set, sleep)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, err := api.LoadLink(revision)
	if err != nil {
		panic(err)
	}
	return Record{Revision: revision, Link: link}
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

// withRejection returns the input after the API server rejected a write permanently.
func (in Input) withRejection(why string) Input {
	in.Rejected = map[string]string{in.Name: why}
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

// Invariants: I7.
func TestActivity(t *testing.T) {
	sleeping := []build.Option{zero, sleep(api.Asleep, build.AsleepFor(30*time.Second))}
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]Input{
		"the set is used":                            with().withSignal(events.Activity, 0),
		"the set is about to be used":                with().withSignal(events.Wake, 0),
		"the last use is recent: nothing is written": with(build.LastActivity(59*time.Second)).withSignal(events.Activity, 0),
		"the set has no timeout: nothing is written": with(without(api.IdleTimeoutAnnotation)).withSignal(events.Activity, 0),
		"it is not opted in":                         with(optOut).withSignal(events.Activity, 0),
		"a sleeping set is used":                     with(sleeping...).withSignal(events.Activity, 0),
		"a sleeping set was used before its sleep": with(append(sleeping, build.LastActivity(3*time.Hour))...).withSignal(events.Activity,
			time.Hour),
		"a use before the sleep is stored and wakes no set": with(append(sleeping, build.LastActivity(time.Hour))...),
		"the event of that use is repeated": with(append(sleeping, build.LastActivity(time.Hour))...).withSignal(events.Activity,
			time.Hour),
		"the event is older than the stored use: the time only moves later": with(
			append(sleeping, build.LastActivity(time.Hour))...).withSignal(events.Activity, 2*time.Hour),
		"an old event for a running set": with(build.LastActivity(30*time.Minute)).withSignal(events.Activity, time.Hour),
		"the set is paused: the use is stored, and the set stays asleep": with(
			append(sleeping, build.Paused(), build.WithSleep(build.Sleep(api.Asleep, build.SleepCause(idle.RequestPaused),
				build.AsleepFor(time.Hour))))...).withSignal(events.Wake, 0),
		"the set is paused, and the use is stored already": with(zero, build.Paused(), build.LastActivity(0),
			build.WithSleep(build.Sleep(api.Asleep, build.SleepCause(idle.RequestPaused),
				build.AsleepFor(time.Hour)))),
		"the last use is unknown: the timeout starts now": with(without(api.LastActivityAnnotation)),
		"the last use of a set at zero is unknown":        with(without(api.LastActivityAnnotation), zero),
	})
	patch := Decide(with(build.LastActivity(90*time.Second)).withSignal(events.Activity, 500*time.Millisecond)).Actions[0]
	if got := patch.Ops[1].Value; got != "2026-03-01T11:59:59Z" {
		t.Errorf("stored as %v", got)
	}
}

func TestWakingSetThatAnotherClientScaledToZero(t *testing.T) {
	two := build.Annotation(api.WakeReplicasAnnotation, "2")
	bare := []build.Option{without(api.IdleTimeoutAnnotation), without(api.LastActivityAnnotation), zero}
	with := func(options ...build.Option) Input { return on(web(append(slices.Clone(bare), options...)...)) }
	check(t, map[string]Input{
		"a wake event":                        with(two).withSignal(events.Wake, 0),
		"an activity event":                   with(two).withSignal(events.Activity, 0),
		"awake-until is in the future":        with(two, build.AwakeFor(time.Hour)),
		"the set is not needed":               with(two),
		"no replica count is known":           with().withSignal(events.Wake, 0),
		"an owner controls the set":           with(two, build.ControlledBy("Database", "main")).withSignal(events.Wake, 0),
		"it is paused":                        with(two, build.Paused()).withSignal(events.Wake, 0),
		"it runs":                             with(two, build.Replicas(1)).withSignal(events.Wake, 0),
		"Drydock put the set to sleep before": with(two, sleep(api.Succeeded, func(s *api.Sleep) { s.Attempt = 6 })).withSignal(events.Wake, 0),
		"an old wake event":                   with(two).withSignal(events.Wake, time.Hour),
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
		if !strings.Contains(p.String(), "replicas 0 to 2") {
			t.Errorf("%s", p)
		}
	})
}

// Invariants: I7.
func TestInvalidAnnotations(t *testing.T) {
	soon := build.IdleTimeout("soon")
	said := func(options ...func(*api.Sleep)) build.Option {
		text := idle.MemberOf(web(soon)).InvalidMessage()
		return sleep(
			api.Refused,
			append([]func(*api.Sleep){build.SleepEnded(api.RequestInvalid, time.Hour), func(s *api.Sleep) { s.Message = text }},
				options...)...)
	}
	check(t, map[string]Input{
		"the mistake is reported":                                        on(web(soon)),
		"the mistake was reported before":                                on(web(soon, said())),
		"the mistake was reported before, and an activity event arrives": on(web(soon, said())).withSignal(events.Activity, 0),
		"another mistake is reported":                                    on(web(build.IdleTimeout("later"), said())),
		"the time of readiness is kept":                                  on(web(soon, sleep(api.Succeeded, build.ReadyFor(time.Hour)))),
		"the mistake is corrected: the set falls asleep":                 on(web(said())),
		"the mistake is corrected, and the set is in use":                on(web(said(), build.LastActivity(0))),
		"a resize comes first":                                           on(web(soon, build.Status(build.Operation(api.Moving)))),
		"the set is not opted in: nothing is reported":                   on(web(soon, optOut)),
		"a paused set with a mistake stays awake":                        on(web(soon, build.Paused(), said())),
		"the mistake is made during a sleep: the set wakes":              on(web(soon, zero, sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		"the record of the sleep is unreadable":                          on(web(build.Annotation(api.SleepAnnotation, "{"))),
		"the record of another member is unreadable: only its own event reports it": on(
			web(), member("db", build.Annotation(api.SleepAnnotation, "{"))),
		"the record is unreadable, and the set is not opted in": on(web(optOut, build.Annotation(api.SleepAnnotation, "{}"))),
	})
}

// TestInvalidAnnotationPreventsSleep checks every annotation.
func TestInvalidAnnotationPreventsSleep(t *testing.T) {
	for _, key := range []string{api.PausedAnnotation, api.IdleTimeoutAnnotation, api.LastActivityAnnotation, api.AwakeUntilAnnotation,
		api.KeepWarmAnnotation,
		api.MinUptimeAnnotation, api.DependsOnAnnotation, api.WakeReplicasAnnotation, api.ActivityProbeAnnotation} {
		p := Decide(on(web(build.Annotation(key, "_"))))
		if p.Reason != api.RequestInvalid || p.Announce != events.OperationFailed || !strings.Contains(build.StoredSleep(p).Message, key) {
			t.Errorf("%s: %s", key, p)
		}
	}
}

func TestProbeResults(t *testing.T) {
	down := ProbeResult{Err: errors.New("no route to host")}
	resting := sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute))
	check(t, map[string]Input{
		"the probe says idle":                              on(web(probed)).withProbe("web", ProbeResult{}),
		"the probe says in use":                            on(web(probed)).withProbe("web", ProbeResult{Active: true}),
		"the probe fails":                                  on(web(probed)).withProbe("web", down),
		"the probe was not asked":                          on(web(probed)),
		"the probe failed recently":                        on(web(probed, resting)),
		"the user paused the set: the probe is not needed": on(web(probed, build.Paused())),
		"the probe of another member says in use": on(web(shop), member("db", shop, probed)).withProbe("db",
			ProbeResult{Active: true}),
		"the probe of another member fails":                                  on(web(shop), member("db", shop, probed)).withProbe("db", down),
		"the probe of another member failed recently: the group stays awake": on(web(shop), member("db", shop, probed, resting)),
		"a member at zero is not asked":                                      on(web(shop), member("db", shop, probed, zero)),
		"a member that sleeps is not asked": on(
			web(shop), member("db", shop, probed, zero, sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		"the probe fails again after a retry: the annotation is removed": on(web(probed, resting, retry)).withProbe("web", down),
		"the probe says idle after a retry":                              on(web(probed, resting, retry)).withProbe("web", ProbeResult{}),
		"the time of readiness is kept": on(web(probed, sleep(api.Succeeded, build.ReadyFor(2*time.Hour)))).withProbe("web",
			down),
	})
}

func TestMembersToProbe(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"a set with a probe":        {on(web(probed)), "web"},
		"a set without a probe":     {on(web()), ""},
		"the set is in use":         {on(web(probed, build.LastActivity(0))), ""},
		"another member is in use":  {on(web(probed), member("db", build.LastActivity(0))), ""},
		"a group with two probes":   {on(web(probed), member("db", probed), member("queue")), "db web"},
		"the set is paused":         {on(web(probed, build.Paused())), ""},
		"a sleep is requested":      {on(web(probed)).withSignal(events.Sleep, 0), ""},
		"the set is asleep":         {on(web(probed, zero, sleep(api.Asleep, build.AsleepFor(time.Hour)))), ""},
		"the set is at zero":        {on(web(probed, zero)), ""},
		"the set is not opted in":   {on(web(probed, optOut)), ""},
		"the probe failed recently": {on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))), ""},
		"the probe failed long ago": {on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Hour)))), "web"},
		"the probe failed recently, and the set has the retry annotation": {
			on(web(probed, retry, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))), "web"},
		"the probe failed recently, and a retry event arrives": {
			on(web(probed, sleep(api.Refused, build.SleepEnded(api.ProbeFailed, time.Minute)))).withSignal(events.Retry, 0), "web"},
		"another annotation is invalid":         {on(web(probed, build.DependsOn("x"))), ""},
		"the record of the sleep is unreadable": {on(web(probed, build.Annotation(api.SleepAnnotation, "{"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range row.in.membersToProbe() {
				got = append(got, m.Set.Name)
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestGroupSleepsAndWakesTogether(t *testing.T) {
	asleep := []build.Option{shop, zero, sleep(api.Asleep, build.AsleepFor(30*time.Second))}
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
			db(), front(sleep(api.Stopping, build.ScaledDown(0)), build.ReplicaCounts(3, 3), zero, build.ReplicaCounts(2, 2))),
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
			front(zero, asks, build.LastActivity(2*time.Minute)),
			db(build.LastActivity(2*time.Minute)),
		),
		"a use after the request wakes the group": on(db(build.LastActivity(0)), front(zero, asks)),
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
