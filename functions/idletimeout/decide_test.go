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
			expectGuarded(t, in)
			file.Entry(t, situation, render(in, Decide(in)))
		})
	}
}

// expectGuarded checks that the decision is repeatable, that its writes carry preconditions, and that it changes no observed set.
func expectGuarded(t *testing.T, in Input) {
	t.Helper()
	var objects []metav1.Object
	for _, m := range in.Group {
		objects = append(objects, m.Set)
	}
	for _, records := range in.Records {
		for _, r := range records {
			objects = append(objects, r.Revision)
		}
	}
	before, p := observed(in), Decide(in)
	build.Expect(t, build.World(), func() plan.Plan { return Decide(in) }, p.String(), build.Summary(build.StoredRecord(p)), objects...)
	if after := observed(in); after != before {
		t.Errorf("the decision changed what was observed, from\n%s\nto\n%s", before, after)
	}
}

// observed renders the sets of the group completely.
func observed(in Input) string {
	var b strings.Builder
	for _, m := range in.Group {
		fmt.Fprint(&b, m.Set.Annotations, m.Set.Spec, m.Sleep)
	}
	return b.String()
}

// render returns the golden entry of a decision: the sets of the group, the plan, and the record that the plan stores.
func render(in Input, p plan.Plan) string {
	var b strings.Builder
	for _, m := range in.Group {
		fmt.Fprintf(&b, "set %s: replicas %d, %d ready", m.Set.Name, statefulset.Replicas(m.Set), m.Set.Status.ReadyReplicas)
		if m.Sleep != nil {
			fmt.Fprintf(&b, "; sleep %s", build.Summary(m.Sleep))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "plan: %s %s", p.Kind, p.Reason)
	if p.Detail != "" {
		fmt.Fprintf(&b, " (%s)", p.Detail)
	}
	b.WriteString("\n")
	for _, a := range p.Actions {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	if p.Announce != "" {
		fmt.Fprintf(&b, "-> %s\n", strings.TrimPrefix(p.Announce, "dev.drydock."))
	}
	if record := build.StoredSleep(p); record != nil {
		fmt.Fprintf(&b, "record: %s\n", build.Summary(record))
		if record.Message != "" {
			fmt.Fprintf(&b, "says: %s\n", record.Message)
		}
	}
	return b.String()
}

// on is what is observed for an event about the first set. Of a set that Drydock has scaled to zero there is a record.
func on(sets ...*appsv1.StatefulSet) Input {
	in := Input{Now: build.Now, Name: "web", Settings: build.SleepSettings(), Probes: map[string]Probed{}, Records: map[string][]Record{}}
	for _, s := range sets {
		m := idle.MemberOf(s)
		in.Group = append(in.Group, m)
		if m.Sleep.Active() && m.Sleep.Stopping != nil {
			in.Records[s.Name] = []Record{recordOf(s, m.Sleep)}
		}
	}
	if len(sets) > 0 {
		in.Name = sets[0].Name
	}
	return in
}

// recordOf is the record of a sleep.
func recordOf(set *appsv1.StatefulSet, sleep *api.Sleep) Record {
	revision := resources.MakeSleepRecord(set, sleep)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, err := api.LoadLink(revision)
	if err != nil {
		panic(err)
	}
	return Record{Revision: revision, Link: link}
}

// told is the same with an event that tells of something so long ago.
func (in Input) told(eventType string, ago time.Duration) Input {
	in.Signal = Signal{Type: eventType, At: in.Now.Add(-ago)}
	return in
}

// found is the same with what an activity probe has found.
func (in Input) found(set string, probed Probed) Input {
	in.Probes = map[string]Probed{set: probed}
	return in
}

// refused is the same when the API server has refused a write for good.
func (in Input) refused(why string) Input {
	in.Rejected = why
	return in
}

// web is a set with three replicas and a timeout of an hour, that nobody has used for two.
func web(options ...build.Option) *appsv1.StatefulSet { return member("web", options...) }

func member(name string, options ...build.Option) *appsv1.StatefulSet {
	return build.Set(name, append([]build.Option{build.Replicas(3), build.IdleTimeout("1h"), build.Active(2 * time.Hour)}, options...)...)
}

func sleep(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

var (
	abort  = build.Annotation(api.AbortAnnotation, "")
	retry  = build.Annotation(api.RetryAnnotation, "")
	probe  = build.Annotation(api.ActivityProbeAnnotation, "tcp:5432")
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

func TestFallingAsleep(t *testing.T) {
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
	failed := sleep(api.Failed, build.Ended(api.Aborted, 12*time.Minute))
	check(t, map[string]Input{
		"there is no set":                                               on(),
		"the set is being deleted":                                      on(web(build.Deleting())),
		"it is not opted in":                                            on(web(optOut)),
		"nothing was active":                                            on(web()),
		"it was active":                                                 on(web(build.Active(time.Minute))),
		"no clock puts it to sleep":                                     on(web(without(api.IdleTimeoutAnnotation))),
		"it is at zero by somebody else":                                on(web(zero)),
		"it is paused, and at zero":                                     on(web(build.Paused(), zero)),
		"a resize runs":                                                 on(web(build.Status(build.Operation(api.Moving)))),
		"a resize is given up":                                          on(web(build.Status(build.Operation(api.Reverting)))),
		"a resize has ended":                                            on(web(build.Status(build.Operation(api.Succeeded)))),
		"a resize that nobody can read":                                 on(web(build.Annotation(api.StatusAnnotation, "{"))),
		"I3: a resize of another set":                                   on(web(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set.UID = "uid-2" })))),
		"the controller has not seen it":                                on(web(build.Unseen())),
		"replicas are still being made":                                 on(web(build.Counting(2, 2))),
		"a rollout runs":                                                on(web(partition(0, 2))),
		"a rollout up to a partition":                                   on(web(partition(2, 0))),
		"one that has come so far":                                      on(web(partition(2, 1))),
		"one that is for no replica yet":                                on(web(partition(5, 0))),
		"a rollout that people make":                                    on(web(onDelete)),
		"replicas that are not ready":                                   on(web(build.Counting(3, 0))),
		"the sleep before this one ended":                               on(web(sleep(api.Succeeded, build.Up(2*time.Hour)))),
		"I3: a sleep of another set":                                    on(web(build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, func(s *api.Sleep) { s.Set.UID = "uid-2" }).Encode()))),
		"a sleep that failed a while ago":                               on(web(failed)),
		"the same, and a retry":                                         on(web(failed, retry)),
		"the same, and a retry event":                                   on(web(failed)).told(events.Retry, 0),
		"a retry event about another one of the group":                  on(member("db", shop, build.Active(3*time.Hour)), web(shop, failed)).told(events.Retry, 0),
		"the same, and a retry that a resize waits for":                 on(web(failed, retry, build.Resize("data=1Gi"))),
		"a sleep that failed long ago":                                  on(web(sleep(api.Failed, build.Ended(api.Aborted, 13*time.Minute)))),
		"I4: somebody has scaled it since":                              on(web(build.Replicas(5))),
		"a set that says no replicas has one":                           on(web(build.Replicas(1), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }))),
		"it is paused":                                                  on(web(build.Paused(), build.Active(0))),
		"somebody asks":                                                 on(web(build.Active(time.Minute))).told(events.Sleep, 0),
		"somebody asked long ago, and it was used since":                on(web(build.Active(time.Minute))).told(events.Sleep, time.Hour),
		"somebody asks in the second in which it is used: the use wins": on(web(build.Active(0))).told(events.Sleep, 0),
		"somebody asks for a set of which no clock is known":            on(web(without(api.IdleTimeoutAnnotation))).told(events.Sleep, 0),
	})
	in := on(web())
	in.Trace = "00-trace"
	if got := build.StoredSleep(Decide(in)); got.Trace != "00-trace" || !in.mayBegin() {
		t.Errorf("a sleep that begins has the trace %q", got.Trace)
	}
	for _, in := range []Input{on(web(build.Active(0))), on(web(zero)), on(web(sleep(api.Asleep, build.Slept(time.Hour)), zero)), on()} {
		if in.mayBegin() {
			t.Error("nothing may begin, and it has a trace of its own")
		}
	}
}

func TestActivity(t *testing.T) {
	sleeping := []build.Option{zero, sleep(api.Asleep, build.Slept(30*time.Second))}
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]Input{
		"it is used":                                 with().told(events.Activity, 0),
		"somebody is about to":                       with().told(events.Wake, 0),
		"it was used just now: I7":                   with(build.Active(59*time.Second)).told(events.Activity, 0),
		"it has no timeout: nothing to write":        with(without(api.IdleTimeoutAnnotation)).told(events.Activity, 0),
		"it is not opted in":                         with(optOut).told(events.Activity, 0),
		"it sleeps, and is used":                     with(sleeping...).told(events.Activity, 0),
		"it sleeps, and was used before":             with(append(sleeping, build.Active(3*time.Hour))...).told(events.Activity, time.Hour),
		"that is written, and wakes nobody":          with(append(sleeping, build.Active(time.Hour))...),
		"the same event once more":                   with(append(sleeping, build.Active(time.Hour))...).told(events.Activity, time.Hour),
		"an older one: the time only moves later":    with(append(sleeping, build.Active(time.Hour))...).told(events.Activity, 2*time.Hour),
		"an old one about a set that runs":           with(build.Active(30*time.Minute)).told(events.Activity, time.Hour),
		"it is paused: written, and nobody wakes":    with(append(sleeping, build.Paused(), build.WithSleep(build.Sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour))))...).told(events.Wake, 0),
		"it is paused and that is known":             with(zero, build.Paused(), build.Active(0), build.WithSleep(build.Sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour)))),
		"nobody knows when it was used: from now on": with(without(api.LastActivityAnnotation)),
		"at zero nobody has to know":                 with(without(api.LastActivityAnnotation), zero),
	})
	patch := Decide(with(build.Active(90*time.Second)).told(events.Activity, 500*time.Millisecond)).Actions[0]
	if got := patch.Ops[1].Value; got != "2026-03-01T11:59:59Z" {
		t.Errorf("it is written as %v", got)
	}
}

func TestWakingWhatDrydockDidNotPutToSleep(t *testing.T) {
	two := build.Annotation(api.WakeReplicasAnnotation, "2")
	bare := []build.Option{without(api.IdleTimeoutAnnotation), without(api.LastActivityAnnotation), zero}
	with := func(options ...build.Option) Input { return on(web(append(slices.Clone(bare), options...)...)) }
	check(t, map[string]Input{
		"somebody is about to use it":            with(two).told(events.Wake, 0),
		"somebody uses it":                       with(two).told(events.Activity, 0),
		"it is to be awake until a time":         with(two, build.AwakeFor(time.Hour)),
		"nobody needs it":                        with(two),
		"nobody has said how many":               with().told(events.Wake, 0),
		"its owner scales it":                    with(two, build.Owned("Database", "main")).told(events.Wake, 0),
		"it is paused":                           with(two, build.Paused()).told(events.Wake, 0),
		"it runs":                                with(two, build.Replicas(1)).told(events.Wake, 0),
		"it has slept before, by Drydock's hand": with(two, sleep(api.Succeeded, func(s *api.Sleep) { s.Attempt = 6 })).told(events.Wake, 0),
		"an old event wakes nobody":              with(two).told(events.Wake, time.Hour),
	})
	t.Run("a timeout of its own keeps nobody asleep", func(t *testing.T) {
		// The use may be written down first; then it wakes.
		set := web(two, zero)
		in := on(set).told(events.Wake, 0)
		p := Decide(in)
		if p.Reason == api.ActivityNoted {
			build.With(set, build.Active(0))
			p = Decide(on(set).told(events.Wake, 0))
		}
		if !strings.Contains(p.String(), "replicas 0 to 2") {
			t.Errorf("%s", p)
		}
	})
}

func TestBadInput(t *testing.T) {
	soon := build.IdleTimeout("soon")
	said := func(options ...func(*api.Sleep)) build.Option {
		text := idle.MemberOf(web(soon)).Complaint()
		return sleep(api.Refused, append([]func(*api.Sleep){build.Ended(api.RequestInvalid, time.Hour), func(s *api.Sleep) { s.Message = text }}, options...)...)
	}
	check(t, map[string]Input{
		"it is told":                             on(web(soon)),
		"once":                                   on(web(soon, said())),
		"I7: also on an activity":                on(web(soon, said())).told(events.Activity, 0),
		"another mistake is another complaint":   on(web(build.IdleTimeout("later"), said())),
		"since when it was up is not lost":       on(web(soon, sleep(api.Succeeded, build.Up(time.Hour)))),
		"it is corrected, and sleeps at once":    on(web(said())),
		"it is corrected, and was used":          on(web(said(), build.Active(0))),
		"a resize comes first":                   on(web(soon, build.Status(build.Operation(api.Moving)))),
		"it is not opted in: nobody's business":  on(web(soon, optOut)),
		"a paused set with a mistake is awake":   on(web(soon, build.Paused(), said())),
		"written while it sleeps: it wakes":      on(web(soon, zero, sleep(api.Asleep, build.Slept(time.Hour)))),
		"a sleep that nobody can read":           on(web(build.Annotation(api.SleepAnnotation, "{"))),
		"one of another member is its own event": on(web(), member("db", build.Annotation(api.SleepAnnotation, "{"))),
		"one of a set that is not opted in":      on(web(optOut, build.Annotation(api.SleepAnnotation, "{}"))),
	})
}

// TestEveryAnnotationIsChecked before a set is put to sleep.
func TestEveryAnnotationIsChecked(t *testing.T) {
	for _, key := range []string{api.PausedAnnotation, api.IdleTimeoutAnnotation, api.LastActivityAnnotation, api.AwakeUntilAnnotation, api.KeepWarmAnnotation,
		api.MinUptimeAnnotation, api.DependsOnAnnotation, api.WakeReplicasAnnotation, api.ActivityProbeAnnotation} {
		p := Decide(on(web(build.Annotation(key, "_"))))
		if p.Reason != api.RequestInvalid || p.Announce != events.OperationFailed || !strings.Contains(build.StoredSleep(p).Message, key) {
			t.Errorf("%s: %s", key, p)
		}
	}
}

func TestProbes(t *testing.T) {
	down := Probed{Err: errors.New("no route to host")}
	resting := sleep(api.Refused, build.Ended(api.ProbeFailed, time.Minute))
	check(t, map[string]Input{
		"nobody uses it":                                   on(web(probe)).found("web", Probed{}),
		"somebody does":                                    on(web(probe)).found("web", Probed{Active: true}),
		"it does not answer":                               on(web(probe)).found("web", down),
		"nobody has asked":                                 on(web(probe)),
		"it rests":                                         on(web(probe, resting)),
		"paused by a person: nobody asks":                  on(web(probe, build.Paused())),
		"a member is used":                                 on(web(shop), member("db", shop, probe)).found("db", Probed{Active: true}),
		"a member does not answer":                         on(web(shop), member("db", shop, probe)).found("db", down),
		"a member rests, so the others stay too":           on(web(shop), member("db", shop, probe, resting)),
		"a member at zero is not asked":                    on(web(shop), member("db", shop, probe, zero)),
		"a member that sleeps is not asked":                on(web(shop), member("db", shop, probe, zero, sleep(api.Asleep, build.Slept(time.Hour)))),
		"a retry asks again, and goes when it is answered": on(web(probe, resting, retry)).found("web", down),
		"a retry, and nobody uses it":                      on(web(probe, resting, retry)).found("web", Probed{}),
		"since when it was up is not lost":                 on(web(probe, sleep(api.Succeeded, build.Up(2*time.Hour)))).found("web", down),
	})
}

func TestWhoIsProbed(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"a set with a probe":                {on(web(probe)), "web"},
		"a set without":                     {on(web()), ""},
		"one that is in use":                {on(web(probe, build.Active(0))), ""},
		"one whose group is in use":         {on(web(probe), member("db", build.Active(0))), ""},
		"all of a group":                    {on(web(probe), member("db", probe), member("queue")), "db web"},
		"one that is paused":                {on(web(probe, build.Paused())), ""},
		"one that somebody asks for":        {on(web(probe)).told(events.Sleep, 0), ""},
		"one that sleeps":                   {on(web(probe, zero, sleep(api.Asleep, build.Slept(time.Hour)))), ""},
		"one at zero":                       {on(web(probe, zero)), ""},
		"one that is not opted in":          {on(web(probe, optOut)), ""},
		"one that rests":                    {on(web(probe, sleep(api.Refused, build.Ended(api.ProbeFailed, time.Minute)))), ""},
		"one that has rested":               {on(web(probe, sleep(api.Refused, build.Ended(api.ProbeFailed, time.Hour)))), "web"},
		"one that rests, and a retry":       {on(web(probe, retry, sleep(api.Refused, build.Ended(api.ProbeFailed, time.Minute)))), "web"},
		"one that rests, and a retry event": {on(web(probe, sleep(api.Refused, build.Ended(api.ProbeFailed, time.Minute)))).told(events.Retry, 0), "web"},
		"one with a mistake beside":         {on(web(probe, build.DependsOn("x"))), ""},
		"one whose sleep nobody can read":   {on(web(probe, build.Annotation(api.SleepAnnotation, "{"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range row.in.toProbe() {
				got = append(got, m.Set.Name)
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	asleep := []build.Option{shop, zero, sleep(api.Asleep, build.Slept(30*time.Second))}
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	front := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{shop, build.DependsOn("db")}, options...)...)
	}
	asks := sleep(api.Asleep, build.Because(idle.ForAsk), build.Slept(30*time.Second))
	said := sleep(api.Refused, build.Ended(api.RequestInvalid, time.Hour), func(s *api.Sleep) {
		s.Message = "drydock.dev/depends-on of StatefulSet shop/db leads in a circle; the set stays awake until that is corrected"
	})
	check(t, map[string]Input{
		"those that the event does not name first, without an announcement": on(web(shop), db()),
		"then the one that it names":                                        on(web(shop), db(sleep(api.Planned))),
		"what others need waits for them":                                   on(db(), front()),
		"while they are on their way":                                       on(db(), front(sleep(api.Stopping, build.ScaledDown(0)), build.Counting(3, 3), zero, build.Counting(2, 2))),
		"at zero, but not asleep yet":                                       on(db(), front(sleep(api.Planned, build.OwnerStops()), zero)),
		"they are asleep":                                                   on(db(), front(asleep...)),
		"they are at zero by somebody else":                                 on(db(), front(zero)),
		"a person may pause what others need":                               on(db(build.Paused()), front(build.Active(0))),
		"a member that is paused does not keep the others":                  on(web(shop), db(build.Paused(), build.Active(0), zero, sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour)))),
		"one is used, the other wakes":                                      on(web(asleep...), db(build.Active(0))),
		"one is paused, and stays asleep":                                   on(db(zero, build.Paused(), sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour))), web(shop, build.Active(0))),
		"what was asked for goes on, what sleeps stays so":                  on(front(zero, asks, build.Active(2*time.Minute)), db(build.Active(2*time.Minute))),
		"it is used after the asking: all are awake":                        on(db(build.Active(0)), front(zero, asks)),
		"what it needs is not ready: it waits its turn":                     on(front(zero, sleep(api.Asleep, build.Slept(0)), build.Active(0)), db(build.Counting(3, 2), sleep(api.Waking, build.SleepDue(time.Minute)))),
		"a circle":                                    on(web(shop, build.DependsOn("db")), db(build.DependsOn("web"))),
		"a circle is told of once on each":            on(web(shop, build.DependsOn("db"), said), db(build.DependsOn("web"), said)),
		"the others of a circle's group stay awake":   on(web(shop), db(build.DependsOn("db"), said)),
		"a name that is not in the group":             on(front()),
		"a member with a mistake keeps all awake":     on(web(shop), db(build.IdleTimeout("x"), sleep(api.Refused, build.Ended(api.RequestInvalid, 0), func(s *api.Sleep) { s.Message = idle.MemberOf(db(build.IdleTimeout("x"))).Complaint() }))),
		"a member of which nobody knows the last use": on(web(shop), db(without(api.LastActivityAnnotation))),
		"a member that is being deleted":              on(web(shop), db(build.Deleting())),
		"a member whose volumes are resized":          on(web(shop), db(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })))),
		"the set left its group meanwhile":            func() Input { in := on(db()); in.Name = "web"; return in }(),
	})
}

// TestI6AnyMembersEventMovesTheGroup: whichever member an event names, the next step is the same but for who comes first.
// Invariants: I6.
func TestI6AnyMembersEventMovesTheGroup(t *testing.T) {
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

// TestSetsWithoutAReplicaCount: replicas that nobody has said are one.
func TestSetsWithoutAReplicaCount(t *testing.T) {
	set := web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Status.Replicas, s.Status.ReadyReplicas = nil, 1, 1 }))
	if sleep := build.StoredSleep(Decide(on(set))); sleep == nil || sleep.Replicas != 1 {
		t.Errorf("%+v", sleep)
	}
	set.Spec.Replicas = ptr.To[int32](0)
	if p := Decide(on(set)); p.Reason != api.AtZeroAlready {
		t.Errorf("%s", p)
	}
}
