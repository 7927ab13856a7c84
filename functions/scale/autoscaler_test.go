package scale

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func mode(m v1alpha1.ScalerMode) build.Option {
	return editScaler(func(s *v1alpha1.Scaler) { s.Spec.Mode = &m })
}

func fixed(count int32) build.Option { return mode(v1alpha1.ScalerMode{Fixed: &count}) }

var (
	autoMode     = mode(v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 5, CPUPercent: 60}})
	byHPA        = mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](2), MaxReplicas: 6}})
	externalMode = mode(v1alpha1.ScalerMode{ExternallyScaled: &v1alpha1.ExternalMode{}})
	// withAutoscaledCondition adds the condition Autoscaled.
	withAutoscaledCondition = editScaler(func(s *v1alpha1.Scaler) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAutoscaled, Status: metav1.ConditionTrue,
			Reason: string(api.AutoscalerReady), LastTransitionTime: metav1.NewTime(build.Now)})
	})
)

// autoscalerOf returns the unchanged autoscaler of the Scaler, as it exists in the cluster.
func autoscalerOf(s *v1alpha1.Scaler, options ...build.Option) *autoscalingv2.HorizontalPodAutoscaler {
	a := makeAutoscaler(s)
	a.UID, a.ResourceVersion = "uid-hpa", "rv-hpa"
	return build.With(a, options...)
}

func editAutoscaler(change func(*autoscalingv2.HorizontalPodAutoscaler)) build.Option {
	return build.Edit(change)
}

// withoutOwner removes the Scaler as the owner of the autoscaler.
var withoutOwner = editAutoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences = nil })

func withAutoscalerError(in Input) Input {
	in.AutoscalerError = "spec.maxReplicas: Invalid value"
	return in
}

func TestFixedCount(t *testing.T) {
	check(t,
		row{"the count is the fixed count", withReportedStatus(observed(web(3, withEndedScaling(3)), pilot(fixed(3))))},
		row{"another client scales the Scaler", observed(web(3, withEndedScaling(3)), pilot(fixed(3), wants(5)))},
		row{"the mode requests another count", observed(web(2, withEndedScaling(2)), pilot(fixed(3), wants(2)))},
		row{"the Scaler is new", observed(web(2, withEndedScaling(2)), pilot(fixed(3), withoutCount))},
		row{"the fixed count differs from the set's count", observed(web(2, withEndedScaling(2)), pilot(fixed(3)))},
		row{"another client scales the Scaler during a " +
			"scaling", withReportedStatus(observed(web(2, withRecord(api.PreScaling)), pilot(fixed(3), wants(5), withHooks),
			hookJob("pre")))},
		row{"another client scales the Scaler, and the scaling has failed",
			observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))), pilot(fixed(3), wants(5), withRetry))},
		row{"another client scales the set, which would be adopted", observed(web(4, withEndedScaling(3)),
			pilot(fixed(3), withAdoptPolicy))},
		row{"the mode cannot be read", observed(web(3, withEndedScaling(3)), pilot(wants(5),
			editScaler(func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{} })))},
		row{"the mode is externallyScaled", withReportedStatus(observed(web(3, withEndedScaling(3)), pilot(externalMode)))},
	)
}

func TestAutoscaler(t *testing.T) {
	ready := web(3, withEndedScaling(3))
	second := func(options ...build.Option) *v1alpha1.Scaler {
		return scaler("second", 3, append([]build.Option{withAutoscaledCondition}, options...)...)
	}
	check(t,
		row{"the autoscaler is missing", observed(ready, pilot(autoMode))},
		row{"the autoscaler exists", observed(ready, pilot(autoMode), autoscalerOf(pilot(autoMode)))},
		row{"the autoscaler exists, already reported", withReportedStatus(observed(ready, pilot(autoMode), autoscalerOf(pilot(autoMode))))},
		row{"the autoscaler is missing during a " +
			"resize", observed(web(3, build.Status(build.Operation(api.Moving)), withEndedScaling(3)), pilot(autoMode))},
		row{"the autoscaler is missing during a scaling", observed(web(2, withRecord(api.PreScaling)), pilot(autoMode, withHooks),
			hookJob("pre"))},
		row{"the autoscaler is missing after a failed scaling", observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))),
			pilot(autoMode))},
		row{"the Scaler requests another maximum", observed(ready, pilot(byHPA), autoscalerOf(pilot(autoMode)))},
		row{"another client has changed its target", observed(ready, pilot(autoMode),
			autoscalerOf(pilot(autoMode), editAutoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) {
				a.Spec.ScaleTargetRef.Name = "other"
			})))},
		row{"another client has added a behavior", observed(ready, pilot(autoMode),
			autoscalerOf(pilot(autoMode), editAutoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) {
				a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: defaultScaleUpRules(),
					ScaleDown: defaultScaleDownRules()}
			})))},
		row{"it is being deleted", withReportedStatus(observed(ready, pilot(autoMode), autoscalerOf(pilot(autoMode), build.Deleting())))},
		row{"it belongs to another owner", observed(ready, pilot(autoMode), autoscalerOf(pilot(autoMode), withoutOwner))},
		row{"it belongs to a deleted Scaler with the same " +
			"name", withReportedStatus(observed(ready, pilot(autoMode), autoscalerOf(scaler("pilot", 3, autoMode, build.UID("uid-old")))))},
		row{"it belongs to another owner, and a scaling begins", observed(web(2, withEndedScaling(2)), pilot(autoMode),
			autoscalerOf(pilot(autoMode), withoutOwner))},
		row{"the mode was removed", observed(ready, pilot(withAutoscaledCondition), autoscalerOf(pilot(autoMode)))},
		row{"the mode was removed, and the condition is missing", observed(ready, pilot(), autoscalerOf(pilot(autoMode)))},
		row{"the mode was removed, and the autoscaler belongs to another owner", observed(ready, pilot(withAutoscaledCondition),
			autoscalerOf(pilot(autoMode), withoutOwner))},
		row{"the mode was removed, and the autoscaler is deleted", observed(ready, pilot(withAutoscaledCondition))},
		row{"the mode changes to a fixed count", observed(ready, pilot(withAutoscaledCondition, fixed(4)), autoscalerOf(pilot(autoMode)))},
		row{"the Scaler is paused", observed(ready, pilot(withAutoscaledCondition, autoMode, pausedScaler), autoscalerOf(pilot(autoMode)))},
		row{"the Scaler is paused during a scaling", observed(web(2, withRecord(api.PreScaling)),
			pilot(withAutoscaledCondition, autoMode, pausedScaler, withHooks), hookJob("pre"), autoscalerOf(pilot(autoMode)))},
		row{"the Scaler is paused after a failure", observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))),
			pilot(withAutoscaledCondition, autoMode, pausedScaler), autoscalerOf(pilot(autoMode)))},
		row{"the set falls asleep", observed(web(3, asleep(api.Stopping), withEndedScaling(3)), pilot(withAutoscaledCondition, autoMode),
			autoscalerOf(pilot(autoMode)))},
		row{"the set sleeps", observed(web(0, asleep(api.Asleep), withStop(), withRecord(api.Succeeded, pausedAtZero)),
			pilot(withAutoscaledCondition, autoMode), autoscalerOf(pilot(autoMode)))},
		row{"the set wakes", observed(web(0, asleep(api.Waking, wokenUp), withStop(), withRecord(api.Succeeded, pausedAtZero)),
			pilot(autoMode))},
		row{"the set is missing", observed(pilot(withAutoscaledCondition, autoMode), autoscalerOf(pilot(autoMode)))},
		row{"the set is being deleted", observed(web(3, build.Deleting(), withEndedScaling(3)),
			pilot(withAutoscaledCondition, autoMode), autoscalerOf(pilot(autoMode)))},
		row{"the set has not opted in", observed(web(3, notOptedIn, withEndedScaling(3)), pilot(withAutoscaledCondition, autoMode),
			autoscalerOf(pilot(autoMode)))},
		row{"the Scaler is being deleted", observed(ready, pilot(withAutoscaledCondition, autoMode, build.Deleting()),
			autoscalerOf(pilot(autoMode)))},
		row{"a second Scaler gets no autoscaler", withReportedStatus(observed(ready, pilot(), scaler("second", 3, autoMode)))},
		row{"a second Scaler has an autoscaler", observed(ready, pilot(), second(autoMode), autoscalerOf(second(autoMode)))},
		row{"the API server rejects the autoscaler", withAutoscalerError(observed(ready, pilot(autoMode)))},
		row{"the API server rejects the autoscaler, and a scaling begins",
			withAutoscalerError(observed(web(2, withEndedScaling(2)), pilot(autoMode)))},
	)
}

// TestCreatedAutoscalerSpellsOutDefaults: the autoscaler targets the Scaler, is owned by it, and sets each default of the API server.
func TestCreatedAutoscalerSpellsOutDefaults(t *testing.T) {
	half := resource.MustParse("0.5")
	s := pilot(mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MaxReplicas: 6, Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](7), Tolerance: &half}}}}))
	text := toJSON(Decide(observed(web(3, withEndedScaling(3)), s)).Actions[0].Object)
	for _, want := range []string{
		`"name":"pilot","namespace":"shop"`,
		`"ownerReferences":[{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","name":"pilot","uid":"uid-pilot","controller":true}]`,
		`"scaleTargetRef":{"kind":"Scaler","name":"pilot","apiVersion":"drydock.dev/v1alpha1"},"minReplicas":1,"maxReplicas":6`,
		`"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`,
		`"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max",` +
			`"policies":[{"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]}`,
		`"scaleDown":{"stabilizationWindowSeconds":7,"selectPolicy":"Max",` +
			`"policies":[{"type":"Percent","value":100,"periodSeconds":15}],"tolerance":"500m"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	percent := Decide(observed(web(3, withEndedScaling(3)),
		pilot(autoMode))).Actions[0].Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec
	if *percent.MinReplicas != 1 || percent.MaxReplicas != 5 || percent.Metrics[0].Resource.Name != corev1.ResourceCPU ||
		*percent.Metrics[0].Resource.Target.AverageUtilization != 60 {
		t.Errorf("by CPU: %+v", percent)
	}
}

// TestEquivalentAutoscalerIsNotPatched: a quantity in another notation is no change. A tolerance that the API server dropped is none
// either.
func TestEquivalentAutoscalerIsNotPatched(t *testing.T) {
	s := pilot(mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MaxReplicas: 6,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
				AverageValue: ptr.To(resource.MustParse("1000m"))}}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.5"))}}}}))
	live := autoscalerOf(s, editAutoscaler(func(a *autoscalingv2.HorizontalPodAutoscaler) {
		a.Spec.Metrics[0].External.Target.AverageValue = ptr.To(resource.MustParse("1"))
		a.Spec.Behavior.ScaleUp.Tolerance = nil
	}))
	if p := Decide(withReportedStatus(observed(web(3, withEndedScaling(3)), s, live))); p.Kind != plan.KindNoop {
		t.Error(p)
	}
	live.Spec.Behavior.ScaleUp.Tolerance = ptr.To(resource.MustParse("0.9"))
	if p := Decide(withReportedStatus(observed(web(3, withEndedScaling(3)), s, live))); p.Reason != api.AutoscalerKept {
		t.Errorf("another tolerance: %s", p)
	}
}
