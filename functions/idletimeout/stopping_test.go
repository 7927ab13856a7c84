package idletimeout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestStopping: scale stops the pods and says so in the stop. The sleep waits for their end, or fails.
// Invariants: I1, I4, I8.
func TestStopping(t *testing.T) {
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{sleep(api.Stopping, due)}, options...)...))
	}
	half, late, operators := stopped(build.StoppedFor(30*time.Second)), build.SleepDue(-time.Second), build.OwnerStops()
	refused := stopped(build.NotStopped(), build.RefusedBy("admission webhook denied the request"))
	ofAnother := func(s *api.Stop) { s.Operation = "0123456789ab" }
	check(t, map[string]Input{
		"scale has yet to stop it":         with(),
		"scale has not stopped it in time": with(sleep(api.Stopping, late)),
		"pods end":                         with(half, zero, build.ReplicaCounts(2, 2)),
		"the controller has not seen it":   with(half, zero, build.NotObserved()),
		"all pods have ended":              with(half, zero),
		"all pods have ended, and it had another count than planned": with(half, zero, stopped(func(s *api.Stop) { s.Replicas = 5 })),
		"all pods ended when the deadline passed":                    with(sleep(api.Stopping, late), stopped(build.StoppedFor(time.Hour)), zero),
		"another client scaled it to zero before scale":              with(zero, replicasWrittenBy("kubectl")),
		"another sleep has stopped it":                               with(zero, stopped(ofAnother)),
		"its Scaler was paused first":                                with(zero, stopped(build.StoppedByScaler(build.ID))),
		"the set is being deleted":                                   with(half, zero, build.ReplicaCounts(1, 1), build.Deleting()),
		"the operator scales the set to zero":                        with(sleep(api.Stopping, due, operators)),
		"the operator scaled the set to zero, and a pod is left":     with(sleep(api.Stopping, due, operators), zero, build.ReplicaCounts(1, 1)),
		"the operator scaled the set to zero, and all pods ended":    with(sleep(api.Stopping, due, operators), zero),
		"the operator does not scale the set to zero in time":        with(sleep(api.Stopping, late, operators)),
		"the operator scaled the set to zero, and a pod does not end in time": with(sleep(api.Stopping, late, operators), zero,
			build.ReplicaCounts(1, 1)),
		"pods do not end in time":                 with(stopped(build.StoppedFor(time.Hour)), zero, build.ReplicaCounts(1, 1)),
		"the API server rejected the stop":        with(refused),
		"the API server rejected an earlier stop": with(stopped(build.NotStopped(), build.RefusedBy("no"), ofAnother)),
		"the set is used before it is stopped":    with(build.LastActivity(0)),
		"the set is used while pods end":          with(half, zero, build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the set is used while its operator stops it": with(sleep(api.Stopping, due, operators), zero,
			build.ReplicaCounts(2, 2), build.LastActivity(0)),
		"the user aborts the sleep":                 with(half, zero, build.ReplicaCounts(2, 2), abort),
		"the user aborts the sleep before the stop": with(abort),
		"the set is no longer opted in":             with(half, zero, optOut),
	})
}

// TestReplicasRestoredByAnotherClient: another client has scaled the set up during its sleep. Only the first write of an operator within a
// minute may have come late. Later, or from any other client, it means that the set is needed.
// Invariants: I4.
func TestReplicasRestoredByAnotherClient(t *testing.T) {
	owned, user := build.ControlledBy("Database", "main"), replicasWrittenBy("kubectl")
	stop := func(ago time.Duration, options ...func(*api.Stop)) build.Option {
		return stopped(append(options, build.StoppedFor(ago))...)
	}
	again := func(s *api.Stop) { s.Again = true }
	stopping, paused := sleep(api.Stopping, due), build.SleepCause(idle.RequestPaused)
	asleep := func(ago time.Duration, options ...func(*api.Sleep)) build.Option {
		return sleep(api.Asleep, append([]func(*api.Sleep){build.AsleepFor(ago)}, options...)...)
	}
	started := func(ago time.Duration) build.Option {
		return sleep(api.Succeeded, paused, build.SleepEnded(api.StartedByOthers, ago), build.Starts(1))
	}
	with := func(options ...build.Option) Input {
		return on(web(append([]build.Option{build.Replicas(2)}, options...)...))
	}
	check(t, map[string]Input{
		"an operator is late": with(owned, stopping, stop(59*time.Second)),
		"the operator of a set that fell asleep at once is late": with(owned, asleep(59*time.Second), stop(59*time.Second)),
		"an operator writes a second time": with(owned, stopping, stop(time.Second, again),
			replicasWrittenBy("redis-operator")),
		"an operator writes after a minute":       with(owned, asleep(time.Minute), stop(time.Minute)),
		"a user starts a set without an operator": with(asleep(time.Second), stop(time.Second), user),
		"a set with an operator is started while a Scaler scales it": on(scaledByPilot(web(owned, build.Replicas(2), stopping,
			stop(time.Second)))).withScaler(false),
		"a deployment tool starts the set for the third time": with(asleep(time.Minute, build.Starts(2)), stop(time.Minute),
			replicasWrittenBy("argocd-controller")),
		"a user starts a set whose pods are ending":   with(stopping, stop(5*time.Minute), user),
		"the operator that stopped the set starts it": with(owned, asleep(time.Second, build.OwnerStops())),
		"a user starts the paused set":                with(build.Paused(), asleep(time.Hour, paused), stop(time.Hour)),
		"a user started the paused set recently":      with(build.Paused(), started(12*time.Minute)),
		"a user started the paused set long ago":      with(build.Paused(), started(13*time.Minute)),
	})
}

// TestDeadlineOfStop: the sleep gives up a stop that does not begin in time. Pods that were told to stop have the whole time from then on.
func TestDeadlineOfStop(t *testing.T) {
	settings := build.SleepSettings()
	short, long := settings.QuiesceTimeout+30*time.Second, settings.QuiesceTimeout+time.Hour
	grace := build.Edit(func(s *appsv1.StatefulSet) {
		seconds := int64(3600)
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = &seconds
	})
	ending := []build.Option{zero, build.ReplicaCounts(1, 1)}
	overdue, nothing := sleep(api.Stopping, build.SleepDue(-time.Second)), sleep(api.Stopping)
	for name, row := range map[string]struct {
		options []build.Option
		fails   bool
	}{
		"its record has no deadline":                       {[]build.Option{sleep(api.Stopping)}, false},
		"it is stopped at the deadline":                    {[]build.Option{sleep(api.Stopping, build.SleepDue(0))}, false},
		"it is not stopped after the deadline":             {[]build.Option{overdue}, true},
		"it was stopped just before the deadline":          {append(ending, overdue, stopped(build.StoppedFor(time.Minute))), false},
		"its pods have their grace period left":            {append(ending, overdue, stopped(build.StoppedFor(short))), false},
		"its pods have no time left":                       {append(ending, overdue, stopped(build.StoppedFor(short+time.Second))), true},
		"its pods have a long grace period":                {append(ending, overdue, grace, stopped(build.StoppedFor(long))), false},
		"its pods have a long grace period, which is over": {append(ending, overdue, grace, stopped(build.StoppedFor(long+time.Second))), true},
		"its operator has not stopped it": {[]build.Option{sleep(api.Stopping, build.OwnerStops(),
			build.SleepDue(-time.Second))}, true},
	} {
		set := web(append([]build.Option{nothing}, row.options...)...)
		p := Decide(on(set))
		next := build.StoredSleep(p)
		if fails := next != nil && next.FailedAt == api.Stopping && next.Reason == api.DeadlineExceeded; fails != row.fails {
			t.Errorf("%s: %s", name, p)
		} else if !fails && p.Kind != plan.KindWait {
			t.Errorf("%s: %s, want that it waits", name, p)
		}
	}
}

// TestRejectedStopCounts: a webhook rejects each scale-down to zero. Each sleep fails, and only DrydockOperationFailed tells the
// administrator. The set runs the whole time.
func TestRejectedStopCounts(t *testing.T) {
	s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(sleep(api.Stopping, due))}, rejection: "webhook denied"}
	s.runUntil(time.Hour, func() bool { return !s.sleepOf("web").Active() })
	records := operation.Of(s.sets[0])
	if failed := records.Sleep; failed.Phase != api.Failed || failed.FailedAt != api.Stopping || failed.Reason != api.Rejected ||
		!strings.Contains(failed.Message, "webhook denied") || records.Settled(failed) || statefulset.Replicas(s.sets[0]) != 3 {
		t.Errorf("%d replicas, %s:\n%s", statefulset.Replicas(s.sets[0]), build.Words(failed), strings.Join(s.log, "\n"))
	}
}
