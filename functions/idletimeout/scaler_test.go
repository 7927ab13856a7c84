package idletimeout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// scaledByPilot stores a record on the set: its Scaler, pilot, scaled it from 3 to its present count. The changes are applied to it.
func scaledByPilot(set *appsv1.StatefulSet, changes ...func(*api.Scale)) *appsv1.StatefulSet {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindScale, Phase: api.Succeeded,
		Attempt: 1,
		Set:     api.SetRef{Name: set.Name, UID: set.UID}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"},
		Previous: 3, Target: *set.Spec.Replicas, Paused: *set.Spec.Replicas == 0}
	for _, change := range changes {
		change(record)
	}
	build.Annotation(api.ScaleAnnotation, record.Encode())(set)
	return set
}

// withScaler returns the input with a Scaler of the first set.
func (in Input) withScaler(paused bool) Input {
	count := int32(3)
	in.Scalers = map[string]*v1alpha1.Scaler{in.Name: {ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot",
		UID: "uid-pilot", ResourceVersion: "5"},
		Spec: v1alpha1.ScalerSpec{Target: in.Name, Replicas: &count, Paused: paused}}}
	return in
}

// wakingByScaler returns a set at zero whose wake-up began half an hour ago. The change is applied to the record of its Scaler.
func wakingByScaler(change func(*api.Scale)) *appsv1.StatefulSet {
	return scaledByPilot(web(zero, build.LastActivity(0), stopped(build.StoppedFor(time.Hour)), sleep(api.Waking, due,
		build.SleepReason(api.WakingUp, ""), func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now.Add(-30 * time.Minute)) })), change)
}

// TestSetWithPausedScalerIsNotPutToSleep: its user has stopped it, so a sleep would do nothing.
func TestSetWithPausedScalerIsNotPutToSleep(t *testing.T) {
	if p := Decide(on(scaledByPilot(web())).withScaler(true)); p.Kind == plan.KindDo {
		t.Errorf("%s, want no action", p)
	}
	if p := Decide(on(scaledByPilot(web())).withScaler(false)); p.Reason != api.SleepDecided {
		t.Errorf("without a pause: %s, want a sleep", p)
	}
}

// TestSleepFailsWithItsScaler: the set has a Scaler, whose scaling to zero fails. The set runs, and the sleep has failed.
func TestSleepFailsWithItsScaler(t *testing.T) {
	const why = "hook pre failed: Job x: container check ended with exit code 1"
	failed := func(s *api.Scale) {
		s.Phase, s.FailedAt, s.Previous, s.Target, s.Paused = api.Failed, api.PreScaling, 3, 0, true
		s.Started, s.Reason, s.Message = *operation.Moment(build.Now.Add(-30 * time.Second)), api.HookFailed, why
	}
	also := func(change func(*api.Scale)) func(*api.Scale) {
		return func(s *api.Scale) {
			failed(s)
			change(s)
		}
	}
	for name, row := range map[string]struct {
		change  func(*api.Scale)
		options []build.Option
		fails   bool
	}{
		"the scaling failed": {failed, nil, true},
		"the scaling runs":   {also(func(s *api.Scale) { s.Phase = api.PreScaling }), nil, false},
		"a scaling before this sleep failed": {also(func(s *api.Scale) {
			s.Started = *operation.Moment(build.Now.Add(-2 * time.Minute))
		}), nil, false},
		"a scaling to one member failed":                 {also(func(s *api.Scale) { s.Target, s.Paused = 1, false }), nil, false},
		"the post hook failed after the set was stopped": {failed, []build.Option{zero, build.ReplicaCounts(2, 2), stopped()}, false},
	} {
		in := on(scaledByPilot(web(append(row.options, sleep(api.Stopping, due))...), row.change)).withScaler(false)
		p := Decide(in)
		next := build.StoredSleep(p)
		if fails := next != nil && next.Phase == api.Waking && next.FailedAt == api.Stopping; fails != row.fails {
			t.Errorf("%s: %s, want a failure: %t", name, p, row.fails)
		} else if fails && (next.Reason != api.HookFailed || !strings.Contains(next.Message, why)) {
			t.Errorf("%s: %s", name, build.Words(next))
		}
	}
}

// TestWakeUpFailsWithItsScaler: the hook of the wake-up fails, so the set stays at zero. The sleep says so, as soon as this happens.
func TestWakeUpFailsWithItsScaler(t *testing.T) {
	const why = "hook pre failed: Job x: container check ended with exit code 1"
	failed := func(target int32, ago time.Duration) func(*api.Scale) {
		return func(s *api.Scale) {
			s.Phase, s.FailedAt, s.Previous, s.Target = api.Failed, api.PreScaling, 3-target, target
			s.Started, s.Reason, s.Message = *operation.Moment(build.Now.Add(-ago)), api.HookFailed, why
		}
	}
	for name, row := range map[string]struct {
		scale func(*api.Scale)
		fails bool
	}{
		"the start in this wake-up":       {failed(3, time.Minute), true},
		"a start before this wake-up":     {failed(3, time.Hour), false},
		"the stop, after the activity":    {failed(0, time.Minute), false},
		"nothing: it has not reacted yet": {func(*api.Scale) {}, false},
	} {
		p := Decide(on(wakingByScaler(row.scale)).withScaler(false))
		record := build.StoredSleep(p)
		if fails := record != nil && record.Phase == api.Failed; fails != row.fails {
			t.Errorf("%s: %s, want a failure: %t", name, p, row.fails)
		} else if fails && (record.Reason != api.HookFailed || !strings.Contains(record.Message, "Scaler pilot could not start the set: "+why)) {
			t.Errorf("%s: %s: %s", name, record.Reason, record.Message)
		}
	}
}

// TestWakeUpAtZeroWithScaler: the Scaler decides whether a waking set gets pods, and scale starts them. A set that stays at zero by
// its user's wish has ended its sleep.
func TestWakeUpAtZeroWithScaler(t *testing.T) {
	requests := func(count int32) func(*v1alpha1.Scaler) { return func(s *v1alpha1.Scaler) { s.Spec.Replicas = &count } }
	none := func(*v1alpha1.Scaler) {}
	for name, row := range map[string]struct {
		scaler  func(*v1alpha1.Scaler)
		options []build.Option
		phase   api.Phase // of the stored record; empty for none
		reason  api.Reason
	}{
		"it has yet to start the set":                  {none, nil, "", api.WaitingForReady},
		"it has no count, and the set gets its former": {func(s *v1alpha1.Scaler) { s.Spec.Replicas = nil }, nil, "", api.WaitingForReady},
		"it has not started the set in time":           {none, []build.Option{overdueWakeUp}, api.Failed, api.NotReady},
		"a user has paused it":                         {func(s *v1alpha1.Scaler) { s.Spec.Paused = true }, nil, api.Succeeded, api.SetPaused},
		"it requests no pods":                          {requests(0), nil, api.Succeeded, api.AtZeroAlready},
		"it requests one pod":                          {requests(1), nil, "", api.WaitingForReady},
		"the API server has rejected its count": {none, []build.Option{stopped(build.RefusedBy("quota exceeded"))}, api.Waking,
			api.StartRefused},
	} {
		in := on(build.With(wakingByScaler(func(*api.Scale) {}), row.options...)).withScaler(false)
		row.scaler(in.Scalers["web"])
		p := Decide(in)
		var phase api.Phase
		if next := build.StoredSleep(p); next != nil {
			phase = next.Phase
		}
		if phase != row.phase || p.Reason != row.reason {
			t.Errorf("%s: %s, stores phase %q", name, p, phase)
		}
	}
}

// overdueWakeUp stores a wake-up whose deadline has passed.
var overdueWakeUp = sleep(api.Waking, build.AsleepFor(time.Hour), build.SleepDue(-time.Second), build.SleepReason(api.WakingUp, ""),
	func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now.Add(-30 * time.Minute)) })

// TestWakeUpWaitsForScaleDownOfItsScaler: an activity comes while the Scaler scales the set to zero. Its members take longer to end than
// the wake-up may take.
func TestWakeUpWaitsForScaleDownOfItsScaler(t *testing.T) {
	for name, row := range map[string]struct {
		deadline time.Duration
		ends     bool
	}{"in time": {3 * time.Hour, false}, "late": {time.Hour, true}} {
		set := wakingByScaler(func(s *api.Scale) {
			s.Phase, s.Previous, s.Target, s.Deadline = api.Scaling, 3, 0, operation.Moment(build.Now.Add(row.deadline))
		})
		build.ReplicaCounts(3, 0)(set)
		in := on(set).withScaler(false)
		in.Now = build.Now.Add(2 * time.Hour)
		p := Decide(in)
		if record := build.StoredSleep(p); (record != nil && record.Phase.Terminal()) != row.ends {
			t.Errorf("%s: %s, want an end: %t", name, p, row.ends)
		}
	}
}

// TestDeadlinesOfHooksCount: the hook pre runs before the first member starts or stops. The pods of a stop have their time after it.
func TestDeadlinesOfHooksCount(t *testing.T) {
	const hook = 2 * time.Hour
	within := func(set *appsv1.StatefulSet, later time.Duration) Input {
		in := on(scaledByPilot(set)).withScaler(false)
		in.Scalers["web"].Spec.Deadlines.Pre = "2h"
		in.Now = in.Now.Add(later)
		return in
	}
	for name, set := range map[string]*appsv1.StatefulSet{
		"asleep": web(zero, build.LastActivity(0), stopped(), sleep(api.Asleep)),
		"waiting for a dependency": web(zero, build.LastActivity(0), stopped(),
			sleep(api.Waking, due, build.SleepReason(api.DependencyFirst, ""))),
		"started in place of its operator": web(zero, build.LastActivity(0), sleep(api.Waking, build.OwnerStops(), build.SleepDue(-time.Second))),
	} {
		in := within(set, 0)
		if record := build.StoredSleep(Decide(in)); record == nil || record.Deadline == nil || record.Deadline.Sub(in.Now) < hook {
			t.Errorf("%s: %s", name, build.Words(record))
		}
	}
	for name, row := range map[string]struct {
		set   *appsv1.StatefulSet
		later time.Duration
		fails bool
	}{
		"the hook pre runs":                {web(sleep(api.Stopping, due)), hook, false},
		"the hook pre does not end":        {web(sleep(api.Stopping, due)), 3 * hook, true},
		"the hook post runs":               {web(zero, build.ReplicaCounts(1, 1), stopped(), sleep(api.Stopping, due)), hook, false},
		"the pods and the hook do not end": {web(zero, build.ReplicaCounts(1, 1), stopped(), sleep(api.Stopping, due)), 3 * hook, true},
	} {
		p := Decide(within(row.set, row.later))
		if next := build.StoredSleep(p); (next != nil && next.FailedAt == api.Stopping) != row.fails {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// TestScalerStartsSetOfAwayOperator: the operator has stopped the set for its sleep, and does not start it. The Scaler is not paused, and
// waits as long as the sleep says that the operator starts the set.
func TestScalerStartsSetOfAwayOperator(t *testing.T) {
	set := scaledByPilot(web(zero, build.LastActivity(0), sleep(api.Waking, func(s *api.Sleep) {
		s.OwnerStops, s.Replicas, s.Deadline = true, 3, operation.Moment(build.Now.Add(-time.Second))
	})))
	p := Decide(on(set).withScaler(false))
	if record := build.StoredSleep(p); record == nil || record.Reason != api.OwnerAway || record.OwnerStops {
		t.Errorf("%s", p)
	}
}

// TestWakeUpEndsBeforeCleanupHook: the set has its members again. The Scaler's hook post waits for the cleanup of claims, and that waits
// for the end of the sleep.
func TestWakeUpEndsBeforeCleanupHook(t *testing.T) {
	set := wakingByScaler(func(s *api.Scale) {
		s.Phase, s.Previous, s.Target, s.CleansUp, s.Paused = api.PostScaling, 0, 2, true, false
		s.Deadline = operation.Moment(build.Now.Add(time.Minute))
	})
	build.With(set, build.Replicas(2), build.ReplicaCounts(2, 2))
	if p := Decide(on(set).withScaler(false)); build.StoredSleep(p) == nil || build.StoredSleep(p).Phase != api.Succeeded {
		t.Errorf("%s", p)
	}
}
