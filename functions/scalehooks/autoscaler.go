package scalehooks

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
)

// autoscale creates the autoscaler of the Scaler that has the set, restores it, and deletes autoscalers of the other Scalers. It is a
// separate step, so that a refused autoscaler stops no scaling.
func (w work) autoscale() plan.Plan {
	if w.Refused != "" {
		return plan.Noop(api.AutoscalerRefused)
	}
	var actions []plan.Action
	for _, s := range w.Scalers {
		switch is := w.autoscaler(s); {
		case is == nil && w.autoscales(s):
			actions = append(actions, plan.Create(plan.Autoscalers, makeAutoscaler(s)))
		case is == nil || !metav1.IsControlledBy(is, s) || is.DeletionTimestamp != nil:
		case s.Spec.Mode.Unreadable():
		case !w.autoscales(s):
			actions = append(actions, plan.Delete(plan.Autoscalers, is))
		default:
			actions = append(actions, restoreAutoscaler(is, s)...)
		}
	}
	return plan.Do(api.AutoscalerKept, actions...)
}

// autoscales reports whether the Scaler is to have an autoscaler. A Scaler that cannot scale has none, because
// its count would change without effect.
func (w work) autoscales(s *v1alpha1.Scaler) bool {
	return s == w.scaler && scale.Autoscaled(s) && w.Set != nil && w.Set.DeletionTimestamp == nil && statefulset.Managed(w.Set)
}

// autoscaler returns the HorizontalPodAutoscaler that has the Scaler's name, or nil.
func (in Input) autoscaler(s *v1alpha1.Scaler) *autoscalingv2.HorizontalPodAutoscaler {
	for _, is := range in.Autoscalers {
		if is.Name == s.Name {
			return is
		}
	}
	return nil
}

// restoreAutoscaler puts the spec back, if another client has changed it or the Scaler says another one.
func restoreAutoscaler(is *autoscalingv2.HorizontalPodAutoscaler, s *v1alpha1.Scaler) []plan.Action {
	want := autoscalerSpec(s)
	forgetTolerance(want.Behavior, is.Spec.Behavior)
	if equality.Semantic.DeepEqual(want, is.Spec) {
		return nil
	}
	return plan.PatchOf(plan.Autoscalers, is).Replace("/spec", want, "spec").Actions()
}

// forgetTolerance takes from want the tolerances that is lacks: an API server without the feature gate HPAConfigurableTolerance drops them.
func forgetTolerance(want, is *autoscalingv2.HorizontalPodAutoscalerBehavior) {
	if want == nil || is == nil {
		return
	}
	for _, rules := range [][2]*autoscalingv2.HPAScalingRules{{want.ScaleUp, is.ScaleUp}, {want.ScaleDown, is.ScaleDown}} {
		if rules[1] != nil && rules[1].Tolerance == nil {
			rules[0].Tolerance = nil
		}
	}
}

// makeAutoscaler makes the HorizontalPodAutoscaler that scales the Scaler. It goes with the Scaler. It does not block the deletion, which
// would need a right on the finalizers of Scalers.
func makeAutoscaler(s *v1alpha1.Scaler) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: scalerKind, Name: s.Name, UID: s.UID, Controller: ptr.To(true)}}},
		Spec: autoscalerSpec(s),
	}
}

const scalerKind = "Scaler"

// autoscalerSpec says everything that the API server would add, so that its defaults are never taken for a change.
func autoscalerSpec(s *v1alpha1.Scaler) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: scalerKind, Name: s.Name}}
	if auto := s.Spec.Mode.Auto; auto != nil {
		spec.MinReplicas, spec.MaxReplicas, spec.Metrics = ptr.To(auto.Min), auto.Max, cpuMetric(auto.CPUPercent)
		return spec
	}
	asked := s.Spec.Mode.HPA.DeepCopy()
	spec.MinReplicas, spec.MaxReplicas, spec.Metrics = ptr.To(ptr.Deref(asked.MinReplicas, 1)), asked.MaxReplicas, asked.Metrics
	if len(spec.Metrics) == 0 {
		spec.Metrics = cpuMetric(0)
	}
	if asked.Behavior != nil {
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesOf(asked.Behavior.ScaleUp, upRules()),
			ScaleDown: rulesOf(asked.Behavior.ScaleDown, downRules())}
	}
	return spec
}

// defaultCPUPercent is the API server's default, too.
const defaultCPUPercent = 80

func cpuMetric(percent int32) []autoscalingv2.MetricSpec {
	if percent == 0 {
		percent = defaultCPUPercent
	}
	return []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(percent)}}}}
}

// upRules and downRules are the defaults of the API server (kubernetes pkg/apis/autoscaling/v2/defaults.go).
func upRules() *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: ptr.To[int32](0), SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}}
}

func downRules() *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}}
}

// rulesOf returns the rules that the user asks for, completed by the defaults.
func rulesOf(asked, rules *autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if asked == nil {
		return rules
	}
	if asked.StabilizationWindowSeconds != nil {
		rules.StabilizationWindowSeconds = asked.StabilizationWindowSeconds
	}
	if asked.SelectPolicy != nil {
		rules.SelectPolicy = asked.SelectPolicy
	}
	if asked.Policies != nil {
		rules.Policies = asked.Policies
	}
	rules.Tolerance = asked.Tolerance
	return rules
}

// autoscalerProblem returns why the Scaler does not have the autoscaler that it asks for, or nil.
func (w work) autoscalerProblem() *problem {
	if !w.autoscales(w.scaler) {
		return nil
	}
	switch is := w.autoscaler(w.scaler); {
	case w.Refused != "":
		return &problem{reason: api.AutoscalerRefused,
			message: "the HorizontalPodAutoscaler could not be written: " + short(w.Refused, longestQuote)}
	case is != nil && !metav1.IsControlledBy(is, w.scaler):
		return &problem{reason: api.AutoscalerTaken, message: fmt.Sprintf("HorizontalPodAutoscaler %s does not belong to the Scaler. "+
			"Delete it, or choose the mode externallyScaled: kubectl delete -n %s horizontalpodautoscaler %s", is.Name, is.Namespace, is.Name)}
	}
	return nil
}

// tellAutoscaler sets the condition about the Scaler's autoscaler. It is there until the autoscaler has gone.
func (w work) tellAutoscaler(s *v1alpha1.Scaler, next *v1alpha1.ScalerStatus) {
	is := w.autoscaler(s)
	own := is != nil && metav1.IsControlledBy(is, s)
	if !own && !w.autoscales(s) {
		meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionAutoscaled)
		return
	}
	if is == nil && w.Refused == "" {
		return // it could not be made yet
	}
	c := metav1.Condition{Type: v1alpha1.ConditionAutoscaled, Status: metav1.ConditionTrue, ObservedGeneration: s.Generation,
		Reason: string(api.AutoscalerReady), Message: fmt.Sprintf("HorizontalPodAutoscaler %s scales the Scaler", s.Name),
		LastTransitionTime: *operation.Moment(w.Now)}
	if why := w.autoscalerProblem(); s == w.scaler && why != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(why.reason), short(why.message, longestMessage)
	}
	meta.SetStatusCondition(&next.Conditions, c)
}
