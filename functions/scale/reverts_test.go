package scale

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// contendForCount lets another client set the count to 5 every second. It returns the times at which the Scaler has restored its own count.
func contendForCount(in Input, lasts time.Duration) (reverts []time.Duration, end Input) {
	begin := in.Now
	for in.Now.Sub(begin) < lasts {
		in.Set = build.With(in.Set, build.Replicas(5))
		p := Decide(in)
		if p.Reason == api.CountReverted {
			reverts = append(reverts, in.Now.Sub(begin))
		}
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
		in.Now = in.Now.Add(time.Second)
	}
	return reverts, in
}

// TestRepeatedRevertsSlowDown: two clients that restore their counts must not write as fast as they can.
func TestRepeatedRevertsSlowDown(t *testing.T) {
	reverts, in := contendForCount(observed(web(3, withEndedScaling(3)), pilot()), time.Hour)
	if len(reverts) < 13 || len(reverts) > 15 || reverts[2] > time.Minute {
		t.Errorf("the count was restored at %v", reverts)
	}
	for i := quickReverts; i < len(reverts); i++ {
		if pause := reverts[i] - reverts[i-1]; pause != contestPause {
			t.Errorf("revert %d comes %s after the one before", i, pause)
		}
	}
	p := Decide(withCount(in, 5))
	status := reportedStatus(withFreshStatus(p, withCount(in, 5)), "pilot")
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHealthy); c == nil || c.Status != metav1.ConditionFalse ||
		c.Reason != string(api.CountContested) {
		t.Errorf("%s: the status is %s", p, build.Words(status))
	}
	other := in
	other.Set = in.Set.DeepCopy()
	*other.Set.Spec.Replicas = 6
	if p := Decide(other); len(p.Actions) > 0 {
		t.Errorf("a third count is reported again: %s", p)
	}
	in = withCount(in, 3) // the other client stops
	if status = reportedStatus(Decide(in), "pilot"); !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionHealthy) {
		t.Errorf("after the contest: %s", build.Words(status))
	}
	in.Now = in.Now.Add(contestWindow)
	if again, _ := contendForCount(in, time.Minute); len(again) != quickReverts {
		t.Errorf("a contest after a pause: the count was restored at %v", again)
	}
}

// withCount returns the input with another count of the set.
func withCount(in Input, count int32) Input {
	in.Set = build.With(in.Set, build.Replicas(count))
	return in
}

// withFreshStatus returns the plan. If it has no actions, it decides again as if the Scaler had no status, so that the plan shows the
// status.
func withFreshStatus(p plan.Plan, in Input) plan.Plan {
	if len(p.Actions) > 0 {
		return p
	}
	in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(),
		editScaler(func(s *v1alpha1.Scaler) { s.Status = v1alpha1.ScalerStatus{} }))}
	return Decide(in)
}

// TestOccasionalRevertsAreImmediate: reverts every five minutes do not count as a contest.
func TestOccasionalRevertsAreImmediate(t *testing.T) {
	in := observed(web(3, withEndedScaling(3)), pilot())
	for i := range 6 {
		in.Now = build.Now.Add(time.Duration(i) * contestWindow / 2)
		in = withCount(in, 5)
		p := Decide(in)
		if p.Reason != api.CountReverted {
			t.Fatalf("revert %d: %s", i, p)
		}
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
	}
}

// TestContestedScalingFailsAtDeadline: before its deadline the scaling only reports the conflict.
func TestContestedScalingFailsAtDeadline(t *testing.T) {
	contest := func(s *api.Scale) {
		s.Reverts = &api.Reverts{Count: quickReverts, First: *operation.Moment(build.Now), Last: *operation.Moment(build.Now)}
	}
	check(t,
		row{"before the deadline", observed(web(5, withRecord(api.Scaling, contest)), pilot())},
		row{"after the deadline", observed(web(5, withRecord(api.Scaling, contest, overdue)), pilot(withHooks, withoutPreHook))},
	)
}

var withoutPreHook = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = nil })

// TestRevertCountSurvivesNewScaling: the record of the next operation takes over the reverts.
func TestRevertCountSurvivesNewScaling(t *testing.T) {
	in := observed(web(2, withRecord(api.Succeeded, func(s *api.Scale) {
		s.Previous, s.Target, s.Reverts = 2, 2,
			&api.Reverts{Count: 2}
	})), pilot())
	if next := build.StoredScale(Decide(in)); next == nil || next.Phase != api.PreScaling || next.Reverts == nil || next.Reverts.Count != 2 {
		t.Errorf("%+v", next)
	}
}

// TestRefusedStatusOfOtherScalerIsIgnored: the rejection does not concern the scaling, and the status is not written again for this event.
func TestRefusedStatusOfOtherScalerIsIgnored(t *testing.T) {
	other := scaler("other", 9)
	refusal := func(in Input, name string) Input {
		in = withRejection(in)
		in.RefusedStatusOf = name
		return in
	}
	check(t,
		row{"the other Scaler's status is rejected before the hook Job is created",
			refusal(observed(web(2, withRecord(api.PreScaling)), pilot(withHooks), other), "other")},
		row{"the other Scaler's status is rejected when members are ready",
			refusal(observed(web(3, withRecord(api.Scaling)), pilot(withHooks), other), "other")},
		row{"the other Scaler's status is rejected, without a scaling",
			withReportedStatus(refusal(observed(web(3, withEndedScaling(3)), pilot(), other), "other"))},
		row{"its own status is rejected", refusal(observed(web(2, withRecord(api.PreScaling)), pilot(withHooks)), "pilot")},
	)
}

// TestRetryThatCannotBeRemovedDoesNotBlockScaling: the scaling would wait forever. Without an active scaling the Scaler reports the
// rejection.
func TestRetryThatCannotBeRemovedDoesNotBlockScaling(t *testing.T) {
	stays := func(in Input) Input {
		in = withRejection(in)
		in.RetryNotRemovable, in.RejectedPlan = true, api.NothingFailed
		return in
	}
	check(t,
		row{"the hook Job is missing", stays(observed(web(2, withRecord(api.PreScaling)), pilot(withHooks, withRetry)))},
		row{"no scaling is active", stays(observed(web(3, withEndedScaling(3)), pilot(withRetry)))},
	)
}

// TestRetryAfterScaleByAnotherClientUsesLiveCount: with either conflict policy, the retry starts from the live count without restoring
// another first.
func TestRetryAfterScaleByAnotherClientUsesLiveCount(t *testing.T) {
	byOthers := func(s *api.Scale) { s.Reason = api.StartedByOthers }
	for name, policy := range map[string]build.Option{"revert": editScaler(func(*v1alpha1.Scaler) {}), "adopt": withAdoptPolicy} {
		for phase, count := range map[api.Phase]int32{api.PreScaling: 5, api.Scaling: 5, api.PostScaling: 0} {
			in := withRetryEvent(observed(web(count, withRecord(api.Failed, failedAt(phase), byOthers)), pilot(withHooks, policy)))
			for range 3 {
				for _, a := range Decide(in).Actions {
					in = in.afterAction(a)
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

// TestRevertOfAFastClockPausesNoDays: a node whose clock was thirty days ahead wrote the last revert. The next one must wait
// for contestPause at most, and not for thirty days.
func TestRevertOfAFastClockPausesNoDays(t *testing.T) {
	ahead := operation.Moment(build.Now.Add(30 * 24 * time.Hour))
	if later := build.Now.Add(contestPause + time.Minute); contested(&api.Reverts{Count: quickReverts, First: *ahead, Last: *ahead}, later) {
		t.Errorf("no revert before %s", ahead)
	}
}
