package idletimeout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

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
