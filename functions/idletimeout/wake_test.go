package idletimeout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestSetWhoseOperatorIsAwayGetsItsReplicas: nobody else knows how many there were.
func TestSetWhoseOperatorIsAwayGetsItsReplicas(t *testing.T) {
	with := func(due time.Duration, options ...build.Option) Input {
		waking := sleep(api.Waking, build.Slept(time.Hour), build.OwnerStops(), build.SleepDue(due), build.Told(api.WakingUp, "web: it was active"))
		return on(web(append([]build.Option{zero, waking}, options...)...))
	}
	check(t, map[string]row{
		"its operator has time left": {with(time.Second), "wait WaitingForReady (0 of 3 replicas are ready, its operator is to start them)", ""},
		"the time is over": {with(-time.Second),
			`do OwnerAway: patch statefulsets web {+sleep, replicas 0 to 3}; event OwnerAway "its operator has not started it within 30m0s, so Drydock gives it 3 replicas; look at the operator" -> wake.decided`,
			"Waking OwnerAway, idle, attempt 1, round 1, replicas 3, its owner stops it, stopping -1h0m0s, quiesced -1h0m0s, due 30m0s"},
		"the API server refuses that": {with(-time.Second).refused("quota exceeded"),
			`do StartRefused: patch statefulsets web {+sleep}; event StartRefused "the API server refuses to give it 3 replicas: quota exceeded; remove the cause, or scale the set yourself; the next try is in 13m0s"`,
			"Waking StartRefused, idle, attempt 1, round 1, replicas 3, its owner stops it, stopping -1h0m0s, quiesced -1h0m0s, due 13m0s"},
		"its operator started it in time": {with(-time.Second, build.Replicas(3)),
			`do Awake: patch statefulsets web {+sleep}; event Awake "web: it was active"` + forgets + " -> scaled",
			"Succeeded Awake, idle, attempt 1, round 1, replicas 3, its owner stops it, quiesced -1h0m0s, ready 0s, finished 0s"},
	})
}

// TestRefusedReplicasAreTriedAgain: while the API server refuses the replicas, the sleep and its record stay.
func TestRefusedReplicasAreTriedAgain(t *testing.T) {
	const why = `event StartRefused "the API server refuses to give it 3 replicas: quota exceeded; remove the cause, or scale the set yourself; the next try is in 13m0s"`
	refused := func(due time.Duration, options ...build.Option) Input {
		return on(web(append([]build.Option{sleep(api.Waking, build.Slept(time.Hour), build.SleepDue(due), build.Told(api.StartRefused, "no"))}, options...)...))
	}
	check(t, map[string]row{
		"the wake-up is refused": {on(web(zero, build.Active(0), sleep(api.Asleep, build.Slept(time.Hour)))).refused("quota exceeded"),
			"do StartRefused: patch statefulsets web {+sleep}; " + why,
			"Waking StartRefused, idle, attempt 1, round 1, replicas 3, stopping -1h0m0s, quiesced -1h0m0s, due 13m0s"},
		"it is left alone for a while": {refused(time.Minute, zero), "wait StartRefused (the API server refused its replicas; the next try is at 2026-03-01T12:01:00Z)", ""},
		"then it is tried again": {refused(-time.Second, zero), "do WakingUp: patch statefulsets web {+sleep, replicas 0 to 3} -> wake.decided",
			"Waking WakingUp, idle, attempt 1, round 1, replicas 3, stopping -1h0m0s, quiesced -1h0m0s, due 30m0s"},
		"and refused again": {refused(-time.Second, zero).refused("quota exceeded"), "do StartRefused: patch statefulsets web {+sleep}; " + why,
			"Waking StartRefused, idle, attempt 1, round 1, replicas 3, stopping -1h0m0s, quiesced -1h0m0s, due 13m0s"},
		"a person has scaled it": {refused(time.Minute), `do Awake: patch statefulsets web {+sleep}; event Awake "it runs again"` + forgets + " -> scaled",
			"Succeeded Awake, idle, attempt 1, round 1, replicas 3, quiesced -1h0m0s, ready 0s, finished 0s"},
	})
}

// wroteReplicas is who wrote the set's replicas, and how long ago.
func wroteReplicas(manager string, ago time.Duration) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		at := metav1.NewTime(build.Now.Add(-ago))
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	})
}

// TestSetThatAFailedSleepLeftAtZeroWakes when it is needed, also if an operator controls it. What a person scaled to zero later stays.
func TestSetThatAFailedSleepLeftAtZeroWakes(t *testing.T) {
	left := []build.Option{zero, build.Owned("Database", "main"), wroteReplicas("postgres-operator", 2*time.Hour),
		sleep(api.Failed, build.Ended(api.NotReady, time.Hour), func(s *api.Sleep) { s.FailedAt = api.Waking })}
	with := func(options ...build.Option) Input {
		return on(web(append(append([]build.Option{}, left...), options...)...))
	}
	const wakes = `do WakingUp: patch statefulsets web {replicas 0 to 3, +last-activity, +sleep}; event WakingUp "somebody needs it" -> wake.decided`
	const next = "Waking WakingUp, asked, attempt 2, round 1, replicas 3, due 30m0s"
	check(t, map[string]row{
		"a wake event":                     {with(build.Active(0)).told(events.Wake, 0), wakes[:strings.Index(wakes, ", +last")] + wakes[strings.Index(wakes, ", +sleep"):], next},
		"awake-until":                      {with(build.AwakeFor(time.Minute)), wakes, next},
		"nobody needs it":                  {with(), "noop AtZeroAlready", ""},
		"a person scaled it to zero since": {with(build.AwakeFor(time.Minute), wroteReplicas("kubectl", time.Minute)), "noop AtZeroAlready", ""},
		"it is paused":                     {with(build.AwakeFor(time.Minute), build.Paused()), "noop AtZeroAlready", ""},
	})
}

// TestMemberThatStaysAtZeroIsNotWaitedFor: what depends on it starts without it.
func TestMemberThatStaysAtZeroIsNotWaitedFor(t *testing.T) {
	front := web(shop, zero, build.DependsOn("db"), build.Active(0), sleep(api.Asleep, build.Slept(time.Hour)))
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return member("db", append([]build.Option{shop}, options...)...)
	}
	for name, row := range map[string]struct {
		db    *appsv1.StatefulSet
		waits bool
	}{
		"scaled to zero by a person": {db(zero), false},
		"paused":                     {db(zero, build.Paused(), sleep(api.Asleep, build.Slept(time.Hour))), false},
		"one of three replicas is ready, and it is awake": {db(build.Counting(3, 1)), false},
		"it runs, and no replica is ready":                {db(build.Counting(3, 0)), true},
		"it wakes":                                        {db(build.Counting(3, 1), sleep(api.Waking, due)), true},
		"it wakes, and the first replica is enough":       {db(build.Counting(3, 1), sleep(api.Waking, due), build.Annotation(api.WakeReadyAnnotation, "first")), false},
		"it can be woken":                                 {db(zero, build.Annotation(api.WakeReplicasAnnotation, "1")), true},
	} {
		t.Run(name, func(t *testing.T) {
			in := on(front, row.db)
			in.Group = in.Group.InOrder()
			if got := dependency(in.Group, *in.Group.Find("web")) != ""; got != row.waits {
				t.Errorf("waits: %v", got)
			}
		})
	}
}

// TestSetWhoseOperatorNeverComesStarts: whatever the operator does not do, the set runs in the end, and the sleep ends.
func TestSetWhoseOperatorNeverComesStarts(t *testing.T) {
	s := story{t: t, now: build.Now, sets: []*appsv1.StatefulSet{
		web(zero, build.Owned("PostgresCluster", "main"), build.Active(0), sleep(api.Asleep, build.Slept(time.Hour), build.OwnerStops()))}}
	s.until(2*time.Hour, func() bool { return !s.sleepOf("web").Active() })
	if sleep := s.sleepOf("web"); sleep.Phase != api.Succeeded || statefulset.Replicas(s.sets[0]) != 3 {
		t.Errorf("%d replicas, %s %s\n%s", statefulset.Replicas(s.sets[0]), sleep.Phase, sleep.Message, strings.Join(s.log, "\n"))
	}
}
