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
	check(t, map[string]Input{
		"its operator has time left":      with(time.Second),
		"the time is over":                with(-time.Second),
		"the API server refuses that":     with(-time.Second).refused("quota exceeded"),
		"its operator started it in time": with(-time.Second, build.Replicas(3)),
	})
}

// TestRefusedReplicasAreTriedAgain: while the API server refuses the replicas, the sleep and its record stay.
func TestRefusedReplicasAreTriedAgain(t *testing.T) {
	refused := func(due time.Duration, options ...build.Option) Input {
		return on(web(append([]build.Option{sleep(api.Waking, build.Slept(time.Hour), build.SleepDue(due), build.Told(api.StartRefused, "no"))}, options...)...))
	}
	check(t, map[string]Input{
		"the wake-up is refused":       on(web(zero, build.Active(0), sleep(api.Asleep, build.Slept(time.Hour)))).refused("quota exceeded"),
		"it is left alone for a while": refused(time.Minute, zero),
		"then it is tried again":       refused(-time.Second, zero),
		"and refused again":            refused(-time.Second, zero).refused("quota exceeded"),
		"a person has scaled it":       refused(time.Minute),
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
	check(t, map[string]Input{
		"a wake event":                     with(build.Active(0)).told(events.Wake, 0),
		"awake-until":                      with(build.AwakeFor(time.Minute)),
		"nobody needs it":                  with(),
		"a person scaled it to zero since": with(build.AwakeFor(time.Minute), wroteReplicas("kubectl", time.Minute)),
		"it is paused":                     with(build.AwakeFor(time.Minute), build.Paused()),
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
