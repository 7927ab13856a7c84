package scale

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

// TestForbiddenWriteIsRetriedUntilDeadline: a quota may allow the write later. Until the deadline, the Scaler reports the rejection.
func TestForbiddenWriteIsRetriedUntilDeadline(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	in.Rejected, in.Forbidden = "exceeded quota", true
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "exceeded quota")
	in.Now = in.Now.Add(time.Hour)
	checkLeadsTo(t, Decide(in), api.Failed, 3, 1)
	in.Now, in.Forbidden = build.Now, false
	checkLeadsTo(t, Decide(in), api.Failed, 3, 1)
}

// checkHealthMessage checks that the condition Healthy becomes False with the words, in a message of acceptable length.
func checkHealthMessage(t *testing.T, p plan.Plan, words string) {
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
	t.Errorf("%.300s: no status was reported", p)
}

// TestRejectedWriteIsReportedWithoutScaling: a rejection is reported without an active scaling, and when only the deletion of a Job is
// rejected.
func TestRejectedWriteIsReportedWithoutScaling(t *testing.T) {
	idle := drainingScaler(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = "a webhook denies it"
	checkHealthMessage(t, Decide(idle), idle.Rejected)
	none := drainingScaler(api.Succeeded, 3)
	none.Set.Annotations, none.Rejected = nil, "a webhook denies it"
	checkHealthMessage(t, Decide(none), none.Rejected)

	tidies := drainingScaler(api.PreScaling, 3)
	record, _ := api.LoadScale(tidies.Set)
	old := record.Clone()
	old.Operation = "ffffffffffff"
	tidies.Jobs = []*batchv1.Job{resources.MakeScaleHook(tidies.Set, old, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	tidies.Rejected, tidies.Forbidden = "a webhook keeps the Job", true
	checkHealthMessage(t, Decide(tidies), tidies.Rejected)
}

// TestLongErrorsAreTruncated: a condition's message may have 32 KiB, and the annotations of an object 256 KiB.
func TestLongErrorsAreTruncated(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	in.Rejected = strings.Repeat("no ", 100_000)
	p := Decide(in)
	checkHealthMessage(t, p, api.RetryAnnotation)
	if record, _ := storedBy(t, p); record == nil || len(record.Message) > 4096 {
		t.Errorf("%.300v", record)
	}
	idle := drainingScaler(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = in.Rejected
	checkHealthMessage(t, Decide(idle), "no no")
}

// TestScaleDownByTooManyMembersDoesNotBegin: the pre hook must receive the ordinal of each removed member.
func TestScaleDownByTooManyMembersDoesNotBegin(t *testing.T) {
	in := drainingScaler(api.Succeeded, 20_002, func(r *api.Scale) { r.Previous, r.Target = 20_002, 20_002 })
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "smaller steps")
	*in.Scalers[0].Spec.Replicas = 10_002
	checkLeadsTo(t, Decide(in), api.PreScaling, 20_002, 10_002)
}

// TestEventHookNeedsUserFunctions: without events to functions of users, a scaling with such a hook does not begin.
func TestEventHookNeedsUserFunctions(t *testing.T) {
	in := withReportedStatus(observed(web(2, withRecord(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target = 2, 2 })),
		pilot(withEventHooks)))
	checkLeadsTo(t, Decide(in), api.PreScaling, 2, 3)
	in.Settings.OwnFunctionsOnly = true
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "hooks.pre.event of Scaler")
}

// TestRunningHookJobSurvivesChangeOfHookKind: the running Job still counts for the scaling.
func TestRunningHookJobSurvivesChangeOfHookKind(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	record, _ := api.LoadScale(in.Set)
	in.Jobs = []*batchv1.Job{resources.MakeScaleHook(in.Set, record, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	for _, other := range []v1alpha1.Hook{{Event: &v1alpha1.HookEvent{}}, {Cleanup: &v1alpha1.HookCleanup{}}, {}} {
		in.Scalers[0].Spec.Hooks.Pre = &other
		p := Decide(in)
		if record, _ := storedBy(t, p); record != nil || p.Reason != api.StatusUpdated {
			t.Errorf("%s", p)
		}
	}
}

// TestRetryOfRecordWithUnknownFailedPhaseStartsOver: only a forged record has such a phase.
func TestRetryOfRecordWithUnknownFailedPhaseStartsOver(t *testing.T) {
	for _, at := range []api.Phase{"", api.Failing, api.Failed, "x"} {
		in := drainingScaler(api.Failed, 3, func(s *api.Scale) { s.FailedAt = at })
		in.Retry = true
		checkLeadsTo(t, Decide(in), api.PreScaling, 3, 1)
	}
}
