package idletimeout

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// wakingByScaler returns a set at zero whose wake-up began half an hour ago. The change is applied to the record of its Scaler.
func wakingByScaler(change func(*api.Scale)) *appsv1.StatefulSet {
	set := scaledByPilot(web(zero, sleep(api.Waking, due, build.ScaledDown(time.Hour), build.SleepReason(api.WakingUp, ""),
		func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now.Add(-30 * time.Minute)) }), build.LastActivity(0)))
	record, _ := api.LoadScale(set)
	record.PausedCount = 3
	change(record)
	build.Annotation(api.ScaleAnnotation, record.Encode())(set)
	return set
}

// TestSetStartsAlthoughScalerWasDeleted: idle-timeout has ended the pause of the Scaler, whose hook pre runs. Then a user deletes the
// Scaler, and scale-hooks leaves the set at zero.
func TestSetStartsAlthoughScalerWasDeleted(t *testing.T) {
	p := Decide(on(wakingByScaler(func(*api.Scale) {})))
	for _, a := range p.Actions {
		if a.Verb == plan.VerbPatch && strings.Contains(a.String(), "replicas 0 to 3") {
			return
		}
	}
	t.Errorf("%s, want three replicas", p)
}

// TestUsersPauseDuringPlanningStays: the user pauses the Scaler after the sleep was decided and before Drydock has paused it. The pause is
// the user's, so no wake-up may end it.
func TestUsersPauseDuringPlanningStays(t *testing.T) {
	for name, unrecorded := range map[string]bool{"recorded": false, "unrecorded": true} {
		in := on(scaledByPilot(web(sleep(api.Stopping, due), build.LastActivity(time.Hour)))).withScaler(true)
		if unrecorded {
			in.Scalers, in.Unrecorded = nil, in.Scalers
		}
		p := Decide(in)
		if record := build.StoredSleep(p); record == nil || record.Phase != api.Succeeded || record.Reason != api.SetPaused {
			t.Errorf("%s: %s, want the end of the sleep", name, p)
		}
		for _, a := range p.Actions {
			if a.Resource == plan.Scalers || strings.Contains(a.String(), "replicas") {
				t.Errorf("%s: %s", name, a)
			}
		}
	}
}

// TestEndedPauseOfScalerWakesTheSet: another client ends the pause of the Scaler while it scales the set to zero, so the set is needed. If
// scale-hooks has not begun that scaling, the process that began the scale-down has ended before it wrote the pause: it is written then.
func TestEndedPauseOfScalerWakesTheSet(t *testing.T) {
	scaling := func(s *api.Scale) {
		s.Phase, s.Previous, s.Target, s.Paused, s.PausedCount = api.PreScaling, 3, 0, true, 3
		s.Started = *operation.Moment(build.Now.Add(-time.Minute))
	}
	for name, row := range map[string]struct {
		change func(*api.Scale)
		set    []build.Option
		paused bool // before
		wakes  bool
		pauses bool
	}{
		"the pause stays":                      {scaling, nil, true, false, false},
		"another client ends it":               {scaling, nil, false, true, false},
		"another client ends it, and pods end": {scaling, []build.Option{zero, build.ReplicaCounts(2, 2)}, false, true, false},
		"scale-hooks has not seen a pause":     {func(*api.Scale) {}, nil, false, false, true},
		"scale-hooks obeyed an earlier pause": {func(s *api.Scale) {
			scaling(s)
			s.Phase, s.Started = api.Failed, *operation.Moment(build.Now.Add(-time.Hour))
		}, nil, false, false, true},
	} {
		set := scaledByPilot(web(append(row.set, sleep(api.Stopping, due, build.ScaledDown(time.Minute)))...))
		record, _ := api.LoadScale(set)
		row.change(record)
		p := Decide(on(build.With(set, build.Annotation(api.ScaleAnnotation, record.Encode()))).withScaler(row.paused))
		next := build.StoredSleep(p)
		wakes := next != nil && next.Phase == api.Waking && next.Reason == api.StartedByOthers && next.Starts == 1 && next.Replicas == 3
		pauses := slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
			return a.Resource == plan.Scalers && slices.Contains(a.Words, "paused = true")
		})
		if wakes != row.wakes || pauses != row.pauses {
			t.Errorf("%s: %s, %s", name, p, build.Words(next))
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

// TestWakeUpWaitsForScaleDownOfItsScaler: an activity comes while the Scaler scales a set with whenScaled Delete to zero. Its members take
// longer to end than the wake-up may take, and whenScaled must be restored after that.
func TestWakeUpWaitsForScaleDownOfItsScaler(t *testing.T) {
	for name, row := range map[string]struct {
		deadline time.Duration
		ends     bool
	}{"in time": {3 * time.Hour, false}, "late": {time.Hour, true}} {
		set := wakingByScaler(func(s *api.Scale) {
			s.Phase, s.Previous, s.Target, s.Deadline = api.Scaling, 3, 0, operation.Moment(build.Now.Add(row.deadline))
		})
		sleep, _ := api.LoadSleep(set)
		sleep.WhenScaled = "Delete"
		build.Annotation(api.SleepAnnotation, sleep.Encode())(set)
		build.ReplicaCounts(3, 0)(set)
		in := on(set).withScaler(false)
		in.Now = build.Now.Add(2 * time.Hour)
		p := Decide(in)
		record := build.StoredSleep(p)
		if ends := record != nil && record.Phase.Terminal(); ends != row.ends || statefulset.AtZero(set) {
			t.Errorf("%s: %s, want an end: %t", name, p, row.ends)
		} else if ends && (!strings.Contains(record.Message, "whenScaled stays") || record.WhenScaled != "Delete") {
			t.Errorf("%s: %s", name, record.Message)
		}
	}
}

// TestDeadlinesOfHooksCountForEveryStart: the hook pre runs before the first member starts.
func TestDeadlinesOfHooksCountForEveryStart(t *testing.T) {
	overdue := func(s *api.Sleep) { s.Deadline = operation.Moment(build.Now.Add(-time.Second)) }
	for name, option := range map[string]build.Option{
		"asleep":                     sleep(api.Asleep, build.ScaledDown(time.Minute)),
		"waiting for a dependency":   sleep(api.Waking, due, build.ScaledDown(time.Minute), build.SleepReason(api.DependencyFirst, "")),
		"its replicas were rejected": sleep(api.Waking, build.ScaledDown(time.Minute), build.SleepReason(api.StartRefused, ""), overdue),
	} {
		in := on(scaledByPilot(web(zero, build.LastActivity(0), option))).withScaler(true)
		in.Scalers["web"].Spec.Deadlines.Pre = "2h"
		record := build.StoredSleep(Decide(in))
		if record == nil || record.Deadline == nil || record.Deadline.Sub(in.Now) < 2*time.Hour {
			t.Errorf("%s: %+v", name, record)
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

// TestOptedOutSetLosesThePauseOfItsScaler: while the hook pre runs, a manifest removes the annotations and the opt-in label of a
// running set. Drydock may only write to the Scaler then.
func TestOptedOutSetLosesThePauseOfItsScaler(t *testing.T) {
	set := scaledByPilot(web(build.Label(api.ManagedLabel, "")))
	in := on(set).withScaler(true)
	in.Records["web"] = []Record{recordOf(set, build.Sleep(api.Stopping, build.ScaledDown(time.Minute)))}
	p := Decide(in)
	if len(p.Actions) != 1 || p.Actions[0].Resource != plan.Scalers || !strings.Contains(p.String(), "paused = false") {
		t.Errorf("%s", p)
	}
}
