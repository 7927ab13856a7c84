package scalehooks

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
	return edited(func(s *v1alpha1.Scaler) { s.Spec.Mode = &m })
}

func fixed(count int32) build.Option { return mode(v1alpha1.ScalerMode{Fixed: &count}) }

var (
	auto     = mode(v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 5, CPUPercent: 60}})
	byHPA    = mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](2), MaxReplicas: 6}})
	external = mode(v1alpha1.ScalerMode{ExternallyScaled: &v1alpha1.ExternalMode{}})
	paused   = edited(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })
	// tells adds the condition Autoscaled.
	tells = edited(func(s *v1alpha1.Scaler) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAutoscaled, Status: metav1.ConditionTrue,
			Reason: string(api.AutoscalerReady), LastTransitionTime: metav1.NewTime(build.Now)})
	})
)

// made is the unchanged autoscaler of the Scaler.
func made(s *v1alpha1.Scaler, options ...build.Option) *autoscalingv2.HorizontalPodAutoscaler {
	a := makeAutoscaler(s)
	a.UID, a.ResourceVersion = "uid-hpa", "rv-hpa"
	return build.With(a, options...)
}

func changed(change func(*autoscalingv2.HorizontalPodAutoscaler)) build.Option {
	return build.Edit(change)
}

// ownerless takes the owner from an autoscaler: it belongs to others then.
var ownerless = changed(func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences = nil })

func refusedAutoscaler(in Input) Input {
	in.Refused = "spec.maxReplicas: Invalid value"
	return in
}

func TestFixedCount(t *testing.T) {
	check(t,
		row{"it is as fixed", reported(on(web(3, quiet(3)), pilot(fixed(3))))},
		row{"another client scales the Scaler", on(web(3, quiet(3)), pilot(fixed(3), wants(5)))},
		row{"the mode asks for another count", on(web(2, quiet(2)), pilot(fixed(3), wants(2)))},
		row{"the Scaler is new", on(web(2, quiet(2)), pilot(fixed(3), wishless))},
		row{"the count is to change", on(web(2, quiet(2)), pilot(fixed(3)))},
		row{"another client scales the Scaler during a scaling", reported(on(web(2, records(api.PreScaling)), pilot(fixed(3), wants(5), hooked), hook("pre")))},
		row{"another client scales the Scaler, and the scaling has failed", on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(fixed(3), wants(5), retry))},
		row{"another client scales the set, which would be adopted", on(web(4, quiet(3)), pilot(fixed(3), adopting))},
		row{"the mode cannot be read", on(web(3, quiet(3)), pilot(wants(5), edited(func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{} })))},
		row{"others decide", reported(on(web(3, quiet(3)), pilot(external)))},
	)
}

func TestAutoscaler(t *testing.T) {
	ready := web(3, quiet(3))
	second := func(options ...build.Option) *v1alpha1.Scaler {
		return scaler("second", 3, append([]build.Option{tells}, options...)...)
	}
	check(t,
		row{"it is missing", on(ready, pilot(auto))},
		row{"it is there", on(ready, pilot(auto), made(pilot(auto)))},
		row{"it is there, and told", reported(on(ready, pilot(auto), made(pilot(auto))))},
		row{"it is missing, a resize runs", on(web(3, build.Status(build.Operation(api.Moving)), quiet(3)), pilot(auto))},
		row{"it is missing, a scaling runs", on(web(2, records(api.PreScaling)), pilot(auto, hooked), hook("pre"))},
		row{"it is missing, a scaling failed", on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(auto))},
		row{"the Scaler says another maximum", on(ready, pilot(byHPA), made(pilot(auto)))},
		row{"another client has changed its target", on(ready, pilot(auto), made(pilot(auto), changed(func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.ScaleTargetRef.Name = "other"
		})))},
		row{"another client has added a behavior", on(ready, pilot(auto), made(pilot(auto), changed(func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: upRules(), ScaleDown: downRules()}
		})))},
		row{"it is being deleted", reported(on(ready, pilot(auto), made(pilot(auto), build.Deleting())))},
		row{"it belongs to others", on(ready, pilot(auto), made(pilot(auto), ownerless))},
		row{"it belongs to another Scaler of the name", reported(on(ready, pilot(auto), made(scaler("pilot", 3, auto, build.UID("uid-old")))))},
		row{"it belongs to others, and a scaling is to begin", on(web(2, quiet(2)), pilot(auto), made(pilot(auto), ownerless))},
		row{"the mode has gone", on(ready, pilot(tells), made(pilot(auto)))},
		row{"the mode has gone, there is no condition", on(ready, pilot(), made(pilot(auto)))},
		row{"the mode has gone, and it belongs to others", on(ready, pilot(tells), made(pilot(auto), ownerless))},
		row{"the mode has gone, and it, too", on(ready, pilot(tells))},
		row{"the count is fixed now", on(ready, pilot(tells, fixed(4)), made(pilot(auto)))},
		row{"the Scaler is paused", on(ready, pilot(tells, auto, paused), made(pilot(auto)))},
		row{"the Scaler is paused during a scaling", on(web(2, records(api.PreScaling)), pilot(tells, auto, paused, hooked), hook("pre"), made(pilot(auto)))},
		row{"the Scaler is paused after a failure", on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(tells, auto, paused), made(pilot(auto)))},
		row{"the set is missing", on(pilot(tells, auto), made(pilot(auto)))},
		row{"the set is being deleted", on(web(3, build.Deleting(), quiet(3)), pilot(tells, auto), made(pilot(auto)))},
		row{"the set has not opted in", on(web(3, optOut, quiet(3)), pilot(tells, auto), made(pilot(auto)))},
		row{"the Scaler is being deleted", on(ready, pilot(tells, auto, build.Deleting()), made(pilot(auto)))},
		row{"a second Scaler gets none", reported(on(ready, pilot(), scaler("second", 3, auto)))},
		row{"a second Scaler had one", on(ready, pilot(), second(auto), made(second(auto)))},
		row{"the API server refuses it", refusedAutoscaler(on(ready, pilot(auto)))},
		row{"the API server refuses it, a scaling begins", refusedAutoscaler(on(web(2, quiet(2)), pilot(auto)))},
	)
}

// TestAutoscalerThatIsMade scales the Scaler, belongs to it, and says every default of the API server itself.
func TestAutoscalerThatIsMade(t *testing.T) {
	half := resource.MustParse("0.5")
	s := pilot(mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MaxReplicas: 6, Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](7), Tolerance: &half}}}}))
	text := encode(Decide(on(web(3, quiet(3)), s)).Actions[0].Object)
	for _, want := range []string{
		`"name":"pilot","namespace":"shop"`,
		`"ownerReferences":[{"apiVersion":"drydock.dev/v1alpha1","kind":"Scaler","name":"pilot","uid":"uid-pilot","controller":true}]`,
		`"scaleTargetRef":{"kind":"Scaler","name":"pilot","apiVersion":"drydock.dev/v1alpha1"},"minReplicas":1,"maxReplicas":6`,
		`"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`,
		`"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]}`,
		`"scaleDown":{"stabilizationWindowSeconds":7,"selectPolicy":"Max","policies":[{"type":"Percent","value":100,"periodSeconds":15}],"tolerance":"500m"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	percent := Decide(on(web(3, quiet(3)), pilot(auto))).Actions[0].Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec
	if *percent.MinReplicas != 1 || percent.MaxReplicas != 5 || percent.Metrics[0].Resource.Name != corev1.ResourceCPU || *percent.Metrics[0].Resource.Target.AverageUtilization != 60 {
		t.Errorf("by CPU: %+v", percent)
	}
}

// TestAutoscalerReadBack: quantities in other words, and a tolerance that the API server does not know, are no change.
func TestAutoscalerReadBack(t *testing.T) {
	s := pilot(mode(v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MaxReplicas: 6, Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("1000m"))}}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.5"))}}}}))
	is := made(s, changed(func(a *autoscalingv2.HorizontalPodAutoscaler) {
		a.Spec.Metrics[0].External.Target.AverageValue = ptr.To(resource.MustParse("1"))
		a.Spec.Behavior.ScaleUp.Tolerance = nil
	}))
	if p := Decide(reported(on(web(3, quiet(3)), s, is))); p.Kind != plan.KindNoop {
		t.Error(p)
	}
	is.Spec.Behavior.ScaleUp.Tolerance = ptr.To(resource.MustParse("0.9"))
	if p := Decide(reported(on(web(3, quiet(3)), s, is))); p.Reason != api.AutoscalerKept {
		t.Errorf("another tolerance: %s", p)
	}
}
