package scalehooks

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// fight has another client set the count to 5 for as long as that, and looks every second. It returns when the Scaler has put its own count
// back.
func fight(in Input, lasts time.Duration) (reverts []time.Duration, end Input) {
	begin := in.Now
	for in.Now.Sub(begin) < lasts {
		in.Set = build.With(in.Set, build.Replicas(5))
		p := Decide(in)
		if p.Reason == api.CountReverted {
			reverts = append(reverts, in.Now.Sub(begin))
		}
		for _, a := range p.Actions {
			in = in.after(a)
		}
		in.Now = in.Now.Add(time.Second)
	}
	return reverts, in
}

// TestFightOverTheCountSlowsDown: another client that always puts its count back must not have the two write as fast as they can.
func TestFightOverTheCountSlowsDown(t *testing.T) {
	reverts, in := fight(on(web(3, quiet(3)), pilot()), time.Hour)
	if len(reverts) < 13 || len(reverts) > 15 || reverts[2] > time.Minute {
		t.Errorf("the count was put back at %v", reverts)
	}
	for i := quickReverts; i < len(reverts); i++ {
		if pause := reverts[i] - reverts[i-1]; pause != contestPause {
			t.Errorf("revert %d comes %s after the one before", i, pause)
		}
	}
	p := Decide(withCount(in, 5))
	if got := rendered(told(reportAnew(p, withCount(in, 5)), "pilot")); !strings.Contains(got, "Healthy False CountContested") {
		t.Errorf("%s: the status is %s", p, got)
	}
	other := in
	other.Set = in.Set.DeepCopy()
	*other.Set.Spec.Replicas = 6
	if p := Decide(other); len(p.Actions) > 0 {
		t.Errorf("another count is told anew: %s", p)
	}
	in = withCount(in, 3) // the other client has stopped
	if got := rendered(told(Decide(in), "pilot")); !strings.Contains(got, "Healthy True") {
		t.Errorf("after the fight: %s", got)
	}
	in.Now = in.Now.Add(contestWindow)
	if again, _ := fight(in, time.Minute); len(again) != quickReverts {
		t.Errorf("a fight after a pause: the count was put back at %v", again)
	}
}

// withCount is the same, where the set has the count.
func withCount(in Input, count int32) Input {
	in.Set = build.With(in.Set, build.Replicas(count))
	return in
}

// reportAnew returns the plan, with the status as if the Scaler had none yet.
func reportAnew(p plan.Plan, in Input) plan.Plan {
	if len(p.Actions) > 0 {
		return p
	}
	in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(), edited(func(s *v1alpha1.Scaler) { s.Status = v1alpha1.ScalerStatus{} }))}
	return Decide(in)
}

// TestSlowRevertsAreNoFight: three within an hour are put back at once.
func TestSlowRevertsAreNoFight(t *testing.T) {
	in := on(web(3, quiet(3)), pilot())
	for i := range 6 {
		in.Now = build.Now.Add(time.Duration(i) * contestWindow / 2)
		in = withCount(in, 5)
		p := Decide(in)
		if p.Reason != api.CountReverted {
			t.Fatalf("revert %d: %s", i, p)
		}
		for _, a := range p.Actions {
			in = in.after(a)
		}
	}
}

// TestFightDuringAScalingEndsIt at its deadline.
func TestFightDuringAScalingEndsIt(t *testing.T) {
	contest := func(s *api.Scale) {
		s.Reverts = &api.Reverts{Count: quickReverts, First: *operation.Moment(build.Now), Last: *operation.Moment(build.Now)}
	}
	check(t,
		row{"in time", on(web(5, records(api.Scaling, contest)), pilot())},
		row{"late", on(web(5, records(api.Scaling, contest, overdue)), pilot(hooked, undrained))},
	)
}

var undrained = edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = nil })

// TestRevertsOutliveAScaling: the next operation has another record.
func TestRevertsOutliveAScaling(t *testing.T) {
	in := on(web(2, records(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target, s.Reverts = 2, 2, &api.Reverts{Count: 2} })), pilot())
	if next := stored(Decide(in)); next == nil || next.Phase != api.PreScaling || next.Reverts == nil || next.Reverts.Count != 2 {
		t.Errorf("%+v", next)
	}
}

// TestStatusOfAnotherScalerIsRefused: that is nothing to the scaling, and not tried again with the event.
func TestStatusOfAnotherScalerIsRefused(t *testing.T) {
	other := scaler("other", 9)
	refusal := func(in Input, name string) Input {
		in = rejected(in)
		in.Unwritten = name
		return in
	}
	check(t,
		row{"the other's, the hook is missing", refusal(on(web(2, records(api.PreScaling)), pilot(hooked), other), "other")},
		row{"the other's, members are ready", refusal(on(web(3, records(api.Scaling)), pilot(hooked), other), "other")},
		row{"the other's, at rest", reported(refusal(on(web(3, quiet(3)), pilot(), other), "other"))},
		row{"its own", refusal(on(web(2, records(api.PreScaling)), pilot(hooked)), "pilot")},
	)
}

// TestRetryThatCannotBeRemovedKeepsNoScaling: it would wait for ever. At rest the Scaler tells of the refusal.
func TestRetryThatCannotBeRemovedKeepsNoScaling(t *testing.T) {
	stays := func(in Input) Input {
		in = rejected(in)
		in.RetryStays = true
		return in
	}
	check(t,
		row{"the hook is missing", stays(on(web(2, records(api.PreScaling)), pilot(hooked, retry)))},
		row{"at rest", stays(on(web(3, quiet(3)), pilot(retry)))},
	)
}

// TestRetryAfterTheCountOfAnotherClient scales the members that there are, whatever the conflict policy. No count has to be put back first.
func TestRetryAfterTheCountOfAnotherClient(t *testing.T) {
	byOthers := func(s *api.Scale) { s.Reason = api.StartedByOthers }
	for name, policy := range map[string]build.Option{"revert": edited(func(*v1alpha1.Scaler) {}), "adopt": adopting} {
		for phase, count := range map[api.Phase]int32{api.PreScaling: 5, api.Scaling: 5, api.PostScaling: 0} {
			in := retried(on(web(count, records(api.Failed, gaveUp(phase), byOthers)), pilot(hooked, policy)))
			for range 3 {
				for _, a := range Decide(in).Actions {
					in = in.after(a)
				}
				in.Retry = false
			}
			record, err := api.LoadScale(in.Set)
			if err != nil || record.Phase != api.PreScaling || record.Previous != count || record.Target != 3 || len(in.Jobs) != 1 {
				t.Errorf("%s, failed in %s with %d: %+v, %d Jobs, %v", name, phase, count, record, len(in.Jobs), err)
			}
		}
	}
}
