package idletimeout

import (
	"errors"
	"fmt"
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
	"drydock.dev/test/kit/build"
)

// row is a situation, the plan for it, and what the plan stores as the document of a sleep.
type row struct {
	in   Input
	want string
	next string
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { expect(t, row) })
	}
}

// expect checks a decision as build.Expect does, and that it changes no set of the group.
func expect(t *testing.T, row row) {
	t.Helper()
	var others []metav1.Object
	before := ""
	for _, m := range row.in.Group {
		others = append(others, m.Set)
		before += fmt.Sprint(m.Set.Annotations, m.Set.Spec, m.Sleep)
	}
	for _, records := range row.in.Records {
		for _, r := range records {
			others = append(others, r.Revision)
		}
	}
	build.Expect(t, build.World(), func() plan.Plan { return Decide(row.in) }, row.want, row.next, others...)
	after := ""
	for _, m := range row.in.Group {
		after += fmt.Sprint(m.Set.Annotations, m.Set.Spec, m.Sleep)
	}
	if after != before {
		t.Errorf("the decision changed what was observed, from\n%s\nto\n%s", before, after)
	}
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

const (
	decided = `do SleepDecided: patch statefulsets web {+sleep}; event SleepDecided "nothing was active for 1h0m0s" -> sleep.decided`
	planned = "Planned SleepDecided, idle, attempt 1, round 1, replicas 3, due 10m0s"
)

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
	check(t, map[string]row{
		"there is no set":                 {on(), "noop SetGone", ""},
		"the set is being deleted":        {on(web(build.Deleting())), "noop SetGone", ""},
		"it is not opted in":              {on(web(optOut)), "noop NotManaged", ""},
		"nothing was active":              {on(web()), decided, planned},
		"it was active":                   {on(web(build.Active(time.Minute))), "noop NotIdle", ""},
		"no clock puts it to sleep":       {on(web(without(api.IdleTimeoutAnnotation))), "noop NotIdle", ""},
		"it is at zero by somebody else":  {on(web(zero)), "noop AtZeroAlready", ""},
		"it is paused, and at zero":       {on(web(build.Paused(), zero)), "noop AtZeroAlready", ""},
		"a resize runs":                   {on(web(build.Status(build.Operation(api.Moving)))), "noop InProgress", ""},
		"a resize is given up":            {on(web(build.Status(build.Operation(api.Reverting)))), "noop InProgress", ""},
		"a resize has ended":              {on(web(build.Status(build.Operation(api.Succeeded)))), decided, planned},
		"a resize that nobody can read":   {on(web(build.Annotation(api.StatusAnnotation, "{"))), "noop InProgress", ""},
		"I3: a resize of another set":     {on(web(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set.UID = "uid-2" })))), decided, planned},
		"the controller has not seen it":  {on(web(build.Unseen())), "wait RolloutRunning (the StatefulSet controller has not seen the newest spec yet)", ""},
		"replicas are still being made":   {on(web(build.Counting(2, 2))), "wait RolloutRunning (there are 2 of 3 replicas)", ""},
		"a rollout runs":                  {on(web(partition(0, 2))), "wait RolloutRunning (2 of 3 replicas are updated)", ""},
		"a rollout up to a partition":     {on(web(partition(2, 0))), "wait RolloutRunning (0 of 1 replicas are updated)", ""},
		"one that has come so far":        {on(web(partition(2, 1))), decided, planned},
		"one that is for no replica yet":  {on(web(partition(5, 0))), decided, planned},
		"a rollout that people make":      {on(web(onDelete)), decided, planned},
		"replicas that are not ready":     {on(web(build.Counting(3, 0))), decided, planned},
		"the sleep before this one ended": {on(web(sleep(api.Succeeded, build.Up(2*time.Hour)))), decided, "Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"I3: a sleep of another set":      {on(web(build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, func(s *api.Sleep) { s.Set.UID = "uid-2" }).Encode()))), decided, planned},
		"a sleep that failed a while ago": {on(web(failed)), "noop AlreadyRefused", ""},
		"the same, and a retry": {on(web(failed, retry)),
			`do SleepDecided: patch statefulsets web {+sleep, -retry}; event SleepDecided "nothing was active for 1h0m0s" -> sleep.decided`,
			"Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"the same, and a retry event": {on(web(failed)).told(events.Retry, 0), decided, "Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"a retry event about another one of the group": {on(member("db", shop, build.Active(3*time.Hour)), web(shop, failed)).told(events.Retry, 0),
			strings.ReplaceAll(decided, "sets web", "sets db"), planned},
		"the same, and a retry that a resize waits for": {on(web(failed, retry, build.Resize("data=1Gi"))), "noop AlreadyRefused", ""},
		"a sleep that failed long ago":                  {on(web(sleep(api.Failed, build.Ended(api.Aborted, 13*time.Minute)))), decided, "Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"I4: somebody has scaled it since":              {on(web(build.Replicas(5))), decided, "Planned SleepDecided, idle, attempt 1, round 1, replicas 5, due 10m0s"},
		"a set that says no replicas has one": {on(web(build.Replicas(1), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }))), decided,
			"Planned SleepDecided, idle, attempt 1, round 1, replicas 1, due 10m0s"},
		"it is paused": {on(web(build.Paused(), build.Active(0))),
			`do SleepDecided: patch statefulsets web {+sleep}; event SleepDecided "drydock.dev/paused is set" -> sleep.decided`,
			"Planned SleepDecided, paused, attempt 1, round 1, replicas 3, due 10m0s"},
		"somebody asks": {on(web(build.Active(time.Minute))).told(events.Sleep, 0),
			`do SleepDecided: patch statefulsets web {+sleep}; event SleepDecided "somebody asked for it" -> sleep.decided`,
			"Planned SleepDecided, asked, attempt 1, round 1, replicas 3, due 10m0s"},
		"somebody asked long ago, and it was used since": {on(web(build.Active(time.Minute))).told(events.Sleep, time.Hour), "noop NotIdle", ""},
		"somebody asks in the second in which it is used: the use wins": {
			on(web(build.Active(0))).told(events.Sleep, 0), "noop NotIdle", ""},
		"somebody asks for a set of which no clock is known": {
			on(web(without(api.IdleTimeoutAnnotation))).told(events.Sleep, 0), "noop NotIdle", ""},
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
	const noted, asleep = "do ActivityNoted: patch statefulsets web {+last-activity}", "noop StaysAsleep"
	sleeping := []build.Option{zero, sleep(api.Asleep, build.Slept(30*time.Second))}
	with := func(options ...build.Option) Input { return on(web(options...)) }
	check(t, map[string]row{
		"it is used":                                 {with().told(events.Activity, 0), noted, ""},
		"somebody is about to":                       {with().told(events.Wake, 0), noted, ""},
		"it was used just now: I7":                   {with(build.Active(59*time.Second)).told(events.Activity, 0), "noop NotIdle", ""},
		"it has no timeout: nothing to write":        {with(without(api.IdleTimeoutAnnotation)).told(events.Activity, 0), "noop NotIdle", ""},
		"it is not opted in":                         {with(optOut).told(events.Activity, 0), "noop NotManaged", ""},
		"it sleeps, and is used":                     {with(sleeping...).told(events.Activity, 0), noted, ""},
		"it sleeps, and was used before":             {with(append(sleeping, build.Active(3*time.Hour))...).told(events.Activity, time.Hour), noted, ""},
		"that is written, and wakes nobody":          {with(append(sleeping, build.Active(time.Hour))...), asleep, ""},
		"the same event once more":                   {with(append(sleeping, build.Active(time.Hour))...).told(events.Activity, time.Hour), asleep, ""},
		"an older one: the time only moves later":    {with(append(sleeping, build.Active(time.Hour))...).told(events.Activity, 2*time.Hour), asleep, ""},
		"an old one about a set that runs":           {with(build.Active(30*time.Minute)).told(events.Activity, time.Hour), "noop NotIdle", ""},
		"it is paused: written, and nobody wakes":    {with(append(sleeping, build.Paused(), build.WithSleep(build.Sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour))))...).told(events.Wake, 0), noted, ""},
		"it is paused and that is known":             {with(zero, build.Paused(), build.Active(0), build.WithSleep(build.Sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour)))), asleep, ""},
		"nobody knows when it was used: from now on": {with(without(api.LastActivityAnnotation)), noted, ""},
		"at zero nobody has to know":                 {with(without(api.LastActivityAnnotation), zero), "noop AtZeroAlready", ""},
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
	const wakes = `do WakingUp: patch statefulsets web {replicas 0 to 2, +last-activity, +sleep}; event WakingUp "somebody needs it" -> wake.decided`
	const waking = "Waking WakingUp, asked, attempt 1, round 1, replicas 2, due 30m0s"
	check(t, map[string]row{
		"somebody is about to use it":            {with(two).told(events.Wake, 0), wakes, waking},
		"somebody uses it":                       {with(two).told(events.Activity, 0), wakes, waking},
		"it is to be awake until a time":         {with(two, build.AwakeFor(time.Hour)), wakes, waking},
		"nobody needs it":                        {with(two), "noop AtZeroAlready", ""},
		"nobody has said how many":               {with().told(events.Wake, 0), "noop AtZeroAlready", ""},
		"its owner scales it":                    {with(two, build.Owned("Database", "main")).told(events.Wake, 0), "noop AtZeroAlready", ""},
		"it is paused":                           {with(two, build.Paused()).told(events.Wake, 0), "noop AtZeroAlready", ""},
		"it runs":                                {with(two, build.Replicas(1)).told(events.Wake, 0), "noop NotIdle", ""},
		"it has slept before, by Drydock's hand": {with(two, sleep(api.Succeeded, func(s *api.Sleep) { s.Attempt = 6 })).told(events.Wake, 0), wakes, "Waking WakingUp, asked, attempt 7, round 1, replicas 2, due 30m0s"},
		"an old event wakes nobody":              {with(two).told(events.Wake, time.Hour), "noop AtZeroAlready", ""},
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
	const complaint = `drydock.dev/idle-timeout=\"soon\" on StatefulSet shop/web: write a duration from 10s to 8784h0m0s, as \"30m\" or \"1h30m\"; the set stays awake until that is corrected`
	const refused = `do RequestInvalid: patch statefulsets web {+sleep}; event RequestInvalid "` + complaint + `" -> operation.failed`
	said := func(options ...func(*api.Sleep)) build.Option {
		text := idle.MemberOf(web(soon)).Complaint()
		return sleep(api.Refused, append([]func(*api.Sleep){build.Ended(api.RequestInvalid, time.Hour), func(s *api.Sleep) { s.Message = text }}, options...)...)
	}
	check(t, map[string]row{
		"it is told":                             {on(web(soon)), refused, "Refused RequestInvalid, idle, attempt 1, round 1, replicas 3, finished 0s"},
		"once":                                   {on(web(soon, said())), "noop AlreadyRefused", ""},
		"I7: also on an activity":                {on(web(soon, said())).told(events.Activity, 0), "noop AlreadyRefused", ""},
		"another mistake is another complaint":   {on(web(build.IdleTimeout("later"), said())), strings.ReplaceAll(refused, "soon", "later"), "Refused RequestInvalid, idle, attempt 2, round 1, replicas 3, finished 0s"},
		"since when it was up is not lost":       {on(web(soon, sleep(api.Succeeded, build.Up(time.Hour)))), refused, "Refused RequestInvalid, idle, attempt 2, round 1, replicas 3, ready -1h0m0s, finished 0s"},
		"it is corrected, and sleeps at once":    {on(web(said())), decided, "Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"it is corrected, and was used":          {on(web(said(), build.Active(0))), "noop NotIdle", ""},
		"a resize comes first":                   {on(web(soon, build.Status(build.Operation(api.Moving)))), "noop InProgress", ""},
		"it is not opted in: nobody's business":  {on(web(soon, optOut)), "noop NotManaged", ""},
		"a paused set with a mistake is awake":   {on(web(soon, build.Paused(), said())), "noop AlreadyRefused", ""},
		"written while it sleeps: it wakes":      {on(web(soon, zero, sleep(api.Asleep, build.Slept(time.Hour)))), `do WakingUp: patch statefulsets web {replicas 0 to 3, +sleep}; event WakingUp "what is written on it cannot be understood" -> wake.decided`, "Waking WakingUp, idle, attempt 1, round 1, replicas 3, stopping -1h0m0s, quiesced -1h0m0s, due 30m0s"},
		"a sleep that nobody can read":           {on(web(build.Annotation(api.SleepAnnotation, "{"))), `do StatusInvalid: event StatusInvalid "reading annotation drydock.dev/sleep of StatefulSet shop/web: unexpected end of JSON input; remove the annotation if no operation runs"`, ""},
		"one of another member is its own event": {on(web(), member("db", build.Annotation(api.SleepAnnotation, "{"))), "noop NotIdle", ""},
		"one of a set that is not opted in": {on(web(optOut, build.Annotation(api.SleepAnnotation, "{}"))),
			`do StatusInvalid: event StatusInvalid "annotation drydock.dev/sleep of StatefulSet shop/web: version is 0, this Drydock reads version 2; remove the annotation if no operation runs"`, ""},
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
	const failed = `do ProbeFailed: patch statefulsets web {+sleep}; event ProbeFailed "activity probe tcp:5432: no route to host; the set stays awake, it is asked again in 13m0s"`
	const refused = "Refused ProbeFailed, idle, attempt 1, round 1, replicas 3, finished 0s"
	resting := sleep(api.Refused, build.Ended(api.ProbeFailed, time.Minute))
	check(t, map[string]row{
		"nobody uses it":                         {on(web(probe)).found("web", Probed{}), decided, planned},
		"somebody does":                          {on(web(probe)).found("web", Probed{Active: true}), "do ActivityNoted: patch statefulsets web {+last-activity}", ""},
		"it does not answer":                     {on(web(probe)).found("web", down), failed + " -> operation.failed", refused},
		"nobody has asked":                       {on(web(probe)), "noop AlreadyRefused", ""},
		"it rests":                               {on(web(probe, resting)), "noop AlreadyRefused", ""},
		"paused by a person: nobody asks":        {on(web(probe, build.Paused())), `do SleepDecided: patch statefulsets web {+sleep}; event SleepDecided "drydock.dev/paused is set" -> sleep.decided`, "Planned SleepDecided, paused, attempt 1, round 1, replicas 3, due 10m0s"},
		"a member is used":                       {on(web(shop), member("db", shop, probe)).found("db", Probed{Active: true}), "do ActivityNoted: patch statefulsets db {+last-activity}", ""},
		"a member does not answer":               {on(web(shop), member("db", shop, probe)).found("db", down), strings.ReplaceAll(failed, "statefulsets web", "statefulsets db"), refused},
		"a member rests, so the others stay too": {on(web(shop), member("db", shop, probe, resting)), "noop AlreadyRefused", ""},
		"a member at zero is not asked":          {on(web(shop), member("db", shop, probe, zero)), decided, planned},
		"a member that sleeps is not asked":      {on(web(shop), member("db", shop, probe, zero, sleep(api.Asleep, build.Slept(time.Hour)))), decided, planned},
		"a retry asks again, and goes when it is answered": {on(web(probe, resting, retry)).found("web", down),
			strings.ReplaceAll(failed, "+sleep", "+sleep, -retry") + " -> operation.failed", "Refused ProbeFailed, idle, attempt 2, round 1, replicas 3, finished 0s"},
		"a retry, and nobody uses it": {on(web(probe, resting, retry)).found("web", Probed{}), strings.ReplaceAll(decided, "+sleep", "+sleep, -retry"), "Planned SleepDecided, idle, attempt 2, round 1, replicas 3, due 10m0s"},
		"since when it was up is not lost": {on(web(probe, sleep(api.Succeeded, build.Up(2*time.Hour)))).found("web", down), failed + " -> operation.failed",
			"Refused ProbeFailed, idle, attempt 2, round 1, replicas 3, ready -2h0m0s, finished 0s"},
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
	const circle = `do RequestInvalid: patch statefulsets db {+sleep}; event RequestInvalid "drydock.dev/depends-on of StatefulSet shop/db leads in a circle; the set stays awake until that is corrected"`
	const unknown = `do RequestInvalid: patch statefulsets web {+sleep}; event RequestInvalid "drydock.dev/depends-on of StatefulSet shop/web names db, which is no opted-in member of its group \"shop\"; the set stays awake until that is corrected" -> operation.failed`
	said := sleep(api.Refused, build.Ended(api.RequestInvalid, time.Hour), func(s *api.Sleep) {
		s.Message = "drydock.dev/depends-on of StatefulSet shop/db leads in a circle; the set stays awake until that is corrected"
	})
	check(t, map[string]row{
		"those that the event does not name first, without an announcement": {on(web(shop), db()),
			`do SleepDecided: patch statefulsets db {+sleep}; event SleepDecided "nothing was active for 1h0m0s"`, planned},
		"then the one that it names":                       {on(web(shop), db(sleep(api.Planned))), decided, planned},
		"what others need waits for them":                  {on(db(), front()), `do SleepDecided: patch statefulsets web {+sleep}; event SleepDecided "nothing was active for 1h0m0s"`, planned},
		"while they are on their way":                      {on(db(), front(sleep(api.Stopping, build.ScaledDown(0)), build.Counting(3, 3), zero, build.Counting(2, 2))), "wait DependentAwake (web depends on it and is not asleep yet)", ""},
		"at zero, but not asleep yet":                      {on(db(), front(sleep(api.Planned, build.OwnerStops()), zero)), "wait DependentAwake (web depends on it and is not asleep yet)", ""},
		"they are asleep":                                  {on(db(), front(asleep...)), strings.ReplaceAll(decided, "sets web", "sets db"), planned},
		"they are at zero by somebody else":                {on(db(), front(zero)), strings.ReplaceAll(decided, "sets web", "sets db"), planned},
		"a person may pause what others need":              {on(db(build.Paused()), front(build.Active(0))), `do SleepDecided: patch statefulsets db {+sleep}; event SleepDecided "drydock.dev/paused is set" -> sleep.decided`, "Planned SleepDecided, paused, attempt 1, round 1, replicas 3, due 10m0s"},
		"a member that is paused does not keep the others": {on(web(shop), db(build.Paused(), build.Active(0), zero, sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour)))), decided, planned},
		"one is used, the other wakes":                     {on(web(asleep...), db(build.Active(0))), `do WakingUp: patch statefulsets web {replicas 0 to 3, +last-activity, +sleep}; event WakingUp "db: it was active at 2026-03-01T12:00:00Z" -> wake.decided`, "Waking WakingUp, idle, attempt 1, round 1, replicas 3, stopping -30s, quiesced -30s, due 30m0s"},
		"one is paused, and stays asleep":                  {on(db(zero, build.Paused(), sleep(api.Asleep, build.Because(idle.ForPause), build.Slept(time.Hour))), web(shop, build.Active(0))), "noop StaysAsleep", ""},
		"what was asked for goes on, what sleeps stays so": {on(front(zero, asks, build.Active(2*time.Minute)), db(build.Active(2*time.Minute))), `do SleepDecided: patch statefulsets db {+sleep}; event SleepDecided "somebody asked for it"`, "Planned SleepDecided, asked, attempt 1, round 1, replicas 3, due 10m0s"},
		"it is used after the asking: all are awake":       {on(db(build.Active(0)), front(zero, asks)), `do WakingUp: patch statefulsets web {replicas 0 to 3, +last-activity, +sleep}; event WakingUp "db: it was active at 2026-03-01T12:00:00Z"`, "Waking WakingUp, asked, attempt 1, round 1, replicas 3, stopping -30s, quiesced -30s, due 30m0s"},
		"what it needs is not ready: it waits its turn":    {on(front(zero, sleep(api.Asleep, build.Slept(0)), build.Active(0)), db(build.Counting(3, 2), sleep(api.Waking, build.SleepDue(time.Minute)))), `do WakingUp: patch statefulsets web {+sleep}; event DependencyFirst "db: it is waking up; it waits until db is ready" -> wake.decided`, "Waking DependencyFirst, idle, attempt 1, round 1, replicas 3, stopping 0s, quiesced 0s, due 30m0s"},
		"a circle":                                    {on(web(shop, build.DependsOn("db")), db(build.DependsOn("web"))), circle, "Refused RequestInvalid, idle, attempt 1, round 1, replicas 3, finished 0s"},
		"a circle is told of once on each":            {on(web(shop, build.DependsOn("db"), said), db(build.DependsOn("web"), said)), "noop AlreadyRefused", ""},
		"the others of a circle's group stay awake":   {on(web(shop), db(build.DependsOn("db"), said)), "noop NotIdle", ""},
		"a name that is not in the group":             {on(front()), unknown, "Refused RequestInvalid, idle, attempt 1, round 1, replicas 3, finished 0s"},
		"a member with a mistake keeps all awake":     {on(web(shop), db(build.IdleTimeout("x"), sleep(api.Refused, build.Ended(api.RequestInvalid, 0), func(s *api.Sleep) { s.Message = idle.MemberOf(db(build.IdleTimeout("x"))).Complaint() }))), "noop NotIdle", ""},
		"a member of which nobody knows the last use": {on(web(shop), db(without(api.LastActivityAnnotation))), "do ActivityNoted: patch statefulsets db {+last-activity}", ""},
		"a member that is being deleted":              {on(web(shop), db(build.Deleting())), decided, planned},
		"a member whose volumes are resized":          {on(web(shop), db(build.Status(build.Operation(api.Moving, func(s *api.Resize) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })))), decided, planned},
		"the set left its group meanwhile":            {func() Input { in := on(db()); in.Name = "web"; return in }(), "noop SetGone", ""},
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
