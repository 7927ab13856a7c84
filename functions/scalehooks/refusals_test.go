package scalehooks

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestForbiddenMayBeAllowedSoon, as by a quota that has room again: until the deadline the Scaler tells, and waits.
func TestForbiddenMayBeAllowedSoon(t *testing.T) {
	in := attacked(api.PreScaling, 3)
	in.Rejected, in.Forbidden = "exceeded quota", true
	p := Decide(in)
	if record, _ := writtenBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	tellsUser(t, p, "exceeded quota")
	in.Now = in.Now.Add(time.Hour)
	leadsTo(t, Decide(in), api.Failed, 3, 1)
	in.Now, in.Forbidden = build.Now, false
	leadsTo(t, Decide(in), api.Failed, 3, 1)
}

// tellsUser checks that the plan tells the Scaler's user, in a length that the API server takes.
func tellsUser(t *testing.T, p plan.Plan, words string) {
	t.Helper()
	for _, a := range p.Actions {
		if a.Resource != plan.ScalerStatus {
			continue
		}
		for _, op := range a.Ops {
			status, is := op.Value.(*v1alpha1.ScalerStatus)
			if !is {
				continue
			}
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHealthy)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, words) || len(c.Message) > 32768 {
				t.Errorf("%.300v", c)
			}
			return
		}
	}
	t.Errorf("%.300s: the status tells no user", p)
}

// TestRefusalsAreTold also where no scaling is under way, and where nothing but the deletion of a Job is refused.
func TestRefusalsAreTold(t *testing.T) {
	idle := attacked(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = "a webhook says no"
	tellsUser(t, Decide(idle), idle.Rejected)
	none := attacked(api.Succeeded, 3)
	none.Set.Annotations, none.Rejected = nil, "a webhook says no"
	tellsUser(t, Decide(none), none.Rejected)

	tidies := attacked(api.PreScaling, 3)
	record, _ := api.LoadScale(tidies.Set)
	old := record.Clone()
	old.Operation = "ffffffffffff"
	tidies.Jobs = []*batchv1.Job{resources.MakeScaleHook(tidies.Set, old, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	tidies.Rejected, tidies.Forbidden = "a webhook keeps the Job", true
	tellsUser(t, Decide(tidies), tidies.Rejected)
}

// TestLongWordsOfOthersAreShortened: a condition has at most 32 KiB, and the annotations of a set have 256.
func TestLongWordsOfOthersAreShortened(t *testing.T) {
	in := attacked(api.PreScaling, 3)
	in.Rejected = strings.Repeat("no ", 100_000)
	p := Decide(in)
	tellsUser(t, p, api.RetryAnnotation)
	if record, _ := writtenBy(t, p); record == nil || len(record.Message) > 4096 {
		t.Errorf("%.300v", record)
	}
	idle := attacked(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = in.Rejected
	tellsUser(t, Decide(idle), "no no")
}

// TestHookIsToldOfEveryMemberThatGoes, or the scaling does not begin.
func TestHookIsToldOfEveryMemberThatGoes(t *testing.T) {
	in := attacked(api.Succeeded, 20_002, func(r *api.Scale) { r.Previous, r.Target = 20_002, 20_002 })
	p := Decide(in)
	if record, _ := writtenBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	tellsUser(t, p, "smaller steps")
	*in.Scalers[0].Spec.Replicas = 10_002
	leadsTo(t, Decide(in), api.PreScaling, 20_002, 10_002)
}

// TestHookByEventNeedsATrigger: where no function of a user gets events, no scaling begins that would wait for one.
func TestHookByEventNeedsATrigger(t *testing.T) {
	in := reported(on(web(2, records(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target = 2, 2 })), pilot(byEvent)))
	leadsTo(t, Decide(in), api.PreScaling, 2, 3)
	in.Settings.OwnFunctionsOnly = true
	p := Decide(in)
	if record, _ := writtenBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	tellsUser(t, p, "hooks.pre.event of Scaler")
}

// TestJobThatRunsCounts: a change of the hook's kind does not replace a Job that is running.
func TestJobThatRunsCounts(t *testing.T) {
	in := attacked(api.PreScaling, 3)
	record, _ := api.LoadScale(in.Set)
	in.Jobs = []*batchv1.Job{resources.MakeScaleHook(in.Set, record, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	for _, other := range []v1alpha1.Hook{{Event: &v1alpha1.HookEvent{}}, {Cleanup: &v1alpha1.HookCleanup{}}, {}} {
		in.Scalers[0].Spec.Hooks.Pre = &other
		p := Decide(in)
		if record, _ := writtenBy(t, p); record != nil || p.Reason != api.StatusUpdated {
			t.Errorf("%s", p)
		}
	}
}

// TestFailedRecordWithoutAPhase: a retry of such a forged record starts with the first phase.
func TestFailedRecordWithoutAPhase(t *testing.T) {
	for _, at := range []api.Phase{"", api.Failing, api.Failed, "x"} {
		in := attacked(api.Failed, 3, func(s *api.Scale) { s.FailedAt = at })
		in.Retry = true
		leadsTo(t, Decide(in), api.PreScaling, 3, 1)
	}
}
