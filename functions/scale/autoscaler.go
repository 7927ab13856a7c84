package scale

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
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// reconcileAutoscalers creates or restores the autoscaler of the Scaler that scales the set, and deletes the autoscalers of the other
// Scalers. It is a separate step, so that a rejected autoscaler does not stop a scaling.
func (n counts) reconcileAutoscalers() plan.Plan {
	if n.AutoscalerError != "" {
		return plan.Noop(api.AutoscalerRefused)
	}
	var actions []plan.Action
	for _, s := range n.Scalers {
		switch live := n.autoscalerNamedAfter(s); {
		case live == nil && n.wantsAutoscaler(s):
			actions = append(actions, plan.Create(plan.Autoscalers, makeAutoscaler(s)))
		case live == nil || !metav1.IsControlledBy(live, s) || live.DeletionTimestamp != nil:
		case s.Spec.Mode.Unreadable():
		case !n.wantsAutoscaler(s):
			actions = append(actions, plan.Delete(plan.Autoscalers, live))
		default:
			actions = append(actions, restoreAutoscaler(live, s)...)
		}
	}
	return plan.Do(api.AutoscalerKept, actions...)
}

// wantsAutoscaler reports whether the Scaler should have an autoscaler. A Scaler that cannot scale has none, because its count would change
// without effect. A set that is held has none, because the count must not change meanwhile.
func (n counts) wantsAutoscaler(s *v1alpha1.Scaler) bool {
	return s == n.scaler && n.Set != nil && scaling.Autoscaled(s) && !n.held() && n.Set.DeletionTimestamp == nil && statefulset.Managed(n.Set)
}

// autoscalerNamedAfter returns the HorizontalPodAutoscaler with the Scaler's name, or nil. Its owner may be another object.
func (in Input) autoscalerNamedAfter(s *v1alpha1.Scaler) *autoscalingv2.HorizontalPodAutoscaler {
	for _, a := range in.Autoscalers {
		if a.Name == s.Name {
			return a
		}
	}
	return nil
}

// restoreAutoscaler returns the patch that restores the autoscaler's spec. It returns nil if the spec is the one of the Scaler.
func restoreAutoscaler(live *autoscalingv2.HorizontalPodAutoscaler, s *v1alpha1.Scaler) []plan.Action {
	want := autoscalerSpec(s)
	dropUnsupportedTolerance(want.Behavior, live.Spec.Behavior)
	if equality.Semantic.DeepEqual(want, live.Spec) {
		return nil
	}
	return plan.PatchOf(plan.Autoscalers, live).Replace("/spec", want, "spec").Actions()
}

// dropUnsupportedTolerance removes from want each tolerance that live lacks. An API server without the feature gate
// HPAConfigurableTolerance drops them, and Drydock would otherwise patch the autoscaler forever.
func dropUnsupportedTolerance(want, live *autoscalingv2.HorizontalPodAutoscalerBehavior) {
	if want == nil || live == nil {
		return
	}
	for _, rules := range [][2]*autoscalingv2.HPAScalingRules{{want.ScaleUp, live.ScaleUp}, {want.ScaleDown, live.ScaleDown}} {
		if rules[1] != nil && rules[1].Tolerance == nil {
			rules[0].Tolerance = nil
		}
	}
}

// makeAutoscaler returns the HorizontalPodAutoscaler that scales the Scaler. The garbage collector deletes it with the Scaler. It does not
// block the Scaler's deletion, because blockOwnerDeletion would need permission on the finalizers of Scalers.
func makeAutoscaler(s *v1alpha1.Scaler) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: scalerKind, Name: s.Name, UID: s.UID, Controller: ptr.To(true)}}},
		Spec: autoscalerSpec(s),
	}
}

const scalerKind = "Scaler"

// autoscalerSpec returns the spec for the Scaler's autoscaler, with all defaults of the API server filled in. A default that the server
// adds is therefore never mistaken for a change.
func autoscalerSpec(s *v1alpha1.Scaler) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: scalerKind, Name: s.Name}}
	if auto := s.Spec.Mode.Auto; auto != nil {
		spec.MinReplicas, spec.MaxReplicas, spec.Metrics = ptr.To(auto.Min), auto.Max, cpuMetric(auto.CPUPercent)
		return spec
	}
	requested := s.Spec.Mode.HPA.DeepCopy()
	spec.MinReplicas, spec.MaxReplicas, spec.Metrics = ptr.To(ptr.Deref(requested.MinReplicas, 1)), requested.MaxReplicas, requested.Metrics
	if len(spec.Metrics) == 0 {
		spec.Metrics = cpuMetric(0)
	}
	if requested.Behavior != nil {
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesWithDefaults(requested.Behavior.ScaleUp,
			defaultScaleUpRules()),
			ScaleDown: rulesWithDefaults(requested.Behavior.ScaleDown, defaultScaleDownRules())}
	}
	return spec
}

// defaultCPUPercent equals the API server's default.
const defaultCPUPercent = 80

func cpuMetric(percent int32) []autoscalingv2.MetricSpec {
	if percent == 0 {
		percent = defaultCPUPercent
	}
	return []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(percent)}}}}
}

// defaultScaleUpRules returns the default rules of the API server (kubernetes pkg/apis/autoscaling/v2/defaults.go).
func defaultScaleUpRules() *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: ptr.To[int32](0), SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}}
}

// defaultScaleDownRules returns the default rules of the API server, from the same source.
func defaultScaleDownRules() *autoscalingv2.HPAScalingRules {
	return &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.MaxChangePolicySelect),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}}
}

// rulesWithDefaults returns the requested rules. Fields without a request keep their values from rules, which holds the defaults.
func rulesWithDefaults(requested, rules *autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if requested == nil {
		return rules
	}
	if requested.StabilizationWindowSeconds != nil {
		rules.StabilizationWindowSeconds = requested.StabilizationWindowSeconds
	}
	if requested.SelectPolicy != nil {
		rules.SelectPolicy = requested.SelectPolicy
	}
	if requested.Policies != nil {
		rules.Policies = requested.Policies
	}
	rules.Tolerance = requested.Tolerance
	return rules
}

// autoscalerProblem returns why the Scaler lacks the autoscaler that its mode requests, or nil.
func (n counts) autoscalerProblem() *problem {
	if !n.wantsAutoscaler(n.scaler) {
		return nil
	}
	switch live := n.autoscalerNamedAfter(n.scaler); {
	case n.AutoscalerError != "":
		return &problem{reason: api.AutoscalerRefused,
			message: "the HorizontalPodAutoscaler could not be written: " + text.Clip(n.AutoscalerError, maxQuote)}
	case live != nil && !metav1.IsControlledBy(live, n.scaler):
		return &problem{reason: api.AutoscalerTaken, message: fmt.Sprintf("HorizontalPodAutoscaler %s does not belong to the Scaler. "+
			"Set the mode externallyScaled, or delete the autoscaler: kubectl delete -n %s horizontalpodautoscaler %s", live.Name,
			live.Namespace, live.Name)}
	}
	return nil
}

// setAutoscaledCondition sets the condition Autoscaled of the Scaler. The condition stays until the autoscaler is deleted.
func (n counts) setAutoscaledCondition(s *v1alpha1.Scaler, next *v1alpha1.ScalerStatus) {
	live := n.autoscalerNamedAfter(s)
	owned := live != nil && metav1.IsControlledBy(live, s)
	if !owned && !n.wantsAutoscaler(s) {
		meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionAutoscaled)
		return
	}
	if live == nil && n.AutoscalerError == "" {
		return // the autoscaler was not created yet
	}
	c := metav1.Condition{Type: v1alpha1.ConditionAutoscaled, Status: metav1.ConditionTrue, ObservedGeneration: s.Generation,
		Reason: string(api.AutoscalerReady), Message: fmt.Sprintf("HorizontalPodAutoscaler %s scales this Scaler", s.Name),
		LastTransitionTime: *operation.Moment(n.Now)}
	if problem := n.autoscalerProblem(); s == n.scaler && problem != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(problem.reason), text.Clip(problem.message, maxConditionMessage)
	}
	meta.SetStatusCondition(&next.Conditions, c)
}
