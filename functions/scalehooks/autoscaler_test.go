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
	const put = "do CountFixed: patch scalers.v1alpha1.drydock.dev pilot {replicas = 3}"
	check(t, map[string]row{
		"it is as fixed": {in: reported(on(web(3, quiet(3)), pilot(fixed(3)))),
			want: "noop UpToDate"},
		"another client scales the Scaler": {in: on(web(3, quiet(3)), pilot(fixed(3), wants(5))),
			want: put + `; event CountFixed "another client has asked for 5 members; Scaler pilot has the fixed count 3. Change spec.mode of the Scaler instead"`},
		"the mode asks for another count": {in: on(web(2, quiet(2)), pilot(fixed(3), wants(2))),
			want: put},
		"the Scaler is new": {in: on(web(2, quiet(2)), pilot(fixed(3), wishless)),
			want: put},
		"the count is to change": {in: on(web(2, quiet(2)), pilot(fixed(3))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"another client scales the Scaler during a scaling": {in: reported(on(web(2, records(api.PreScaling)), pilot(fixed(3), wants(5), hooked), hook("pre"))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling runs)"},
		"another client scales the Scaler, and the scaling has failed": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(fixed(3), wants(5), retry)),
			want: put + `; event CountFixed "another client has asked for 5 members; Scaler pilot has the fixed count 3. Change spec.mode of the Scaler instead"`},
		"another client scales the set, which would be adopted": {in: on(web(4, quiet(3)), pilot(fixed(3), adopting)),
			next: "Succeeded ScalerReady, 3 to 3 for uid-pilot, attempt 1, finished -30s",
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 3}; event CountReverted "another client has scaled the StatefulSet to 4; Scaler pilot ` +
				`has put 3 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`},
		"the mode cannot be read": {in: on(web(3, quiet(3)), pilot(wants(5), edited(func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{} }))),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy False RequestInvalid, Failed False RequestInvalid, Progressing False RequestInvalid"},
		"others decide": {in: reported(on(web(3, quiet(3)), pilot(external))),
			want: "noop UpToDate"},
	})
}

func TestAutoscaler(t *testing.T) {
	const create, put, remove = "do AutoscalerKept: create horizontalpodautoscalers pilot", "do AutoscalerKept: patch horizontalpodautoscalers pilot {spec}",
		"do AutoscalerKept: delete horizontalpodautoscalers pilot"
	const told = "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}"
	const healthy = "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"
	ready := web(3, quiet(3))
	second := func(options ...build.Option) *v1alpha1.Scaler {
		return scaler("second", 3, append([]build.Option{tells}, options...)...)
	}
	check(t, map[string]row{
		"it is missing": {in: on(ready, pilot(auto)), want: create},
		"it is there": {in: on(ready, pilot(auto), made(pilot(auto))), want: told,
			status: healthy + ", Autoscaled True AutoscalerReady"},
		"it is there, and told": {in: reported(on(ready, pilot(auto), made(pilot(auto)))), want: "noop UpToDate"},
		"it is missing, a resize runs": {in: on(web(3, build.Status(build.Operation(api.Moving)), quiet(3)), pilot(auto)),
			want: create},
		"it is missing, a scaling runs": {in: on(web(2, records(api.PreScaling)), pilot(auto, hooked), hook("pre")), want: create},
		"it is missing, a scaling failed": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(auto)),
			want: create},
		"the Scaler says another maximum": {in: on(ready, pilot(byHPA), made(pilot(auto))), want: put},
		"another client has changed its target": {in: on(ready, pilot(auto), made(pilot(auto), changed(func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.ScaleTargetRef.Name = "other"
		}))), want: put},
		"another client has added a behavior": {in: on(ready, pilot(auto), made(pilot(auto), changed(func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: upRules(), ScaleDown: downRules()}
		}))), want: put},
		"it is being deleted": {in: reported(on(ready, pilot(auto), made(pilot(auto), build.Deleting()))), want: "noop UpToDate"},
		"it belongs to others": {in: on(ready, pilot(auto), made(pilot(auto), ownerless)), want: told,
			status: "idle 3, Healthy False AutoscalerTaken, Failed False AutoscalerTaken, Progressing False AutoscalerTaken, Autoscaled False AutoscalerTaken"},
		"it belongs to another Scaler of the name": {in: reported(on(ready, pilot(auto), made(scaler("pilot", 3, auto, build.UID("uid-old"))))), want: "noop UpToDate"},
		"it belongs to others, and a scaling is to begin": {in: on(web(2, quiet(2)), pilot(auto), made(pilot(auto), ownerless)),
			want: `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy False AutoscalerTaken, Failed False AutoscalerTaken, Progressing True ScalingStarted, " +
				"Autoscaled False AutoscalerTaken"},
		"the mode has gone": {in: on(ready, pilot(tells), made(pilot(auto))), want: remove},
		"the mode has gone, there is no condition": {in: on(ready, pilot(), made(pilot(auto))),
			want: remove},
		"the mode has gone, and it belongs to others": {in: on(ready, pilot(tells), made(pilot(auto), ownerless)), want: told,
			status: healthy},
		"the mode has gone, and it, too": {in: on(ready, pilot(tells)), want: told, status: healthy},
		"the count is fixed now":         {in: on(ready, pilot(tells, fixed(4)), made(pilot(auto))), want: remove},
		"the Scaler is paused":           {in: on(ready, pilot(tells, auto, paused), made(pilot(auto))), want: remove},
		"the Scaler is paused during a scaling": {in: on(web(2, records(api.PreScaling)), pilot(tells, auto, paused, hooked), hook("pre"), made(pilot(auto))),
			want: remove},
		"the Scaler is paused after a failure": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling))), pilot(tells, auto, paused), made(pilot(auto))),
			want: remove},
		"the set is missing":          {in: on(pilot(tells, auto), made(pilot(auto))), want: remove},
		"the set is being deleted":    {in: on(web(3, build.Deleting(), quiet(3)), pilot(tells, auto), made(pilot(auto))), want: remove},
		"the set has not opted in":    {in: on(web(3, optOut, quiet(3)), pilot(tells, auto), made(pilot(auto))), want: remove},
		"the Scaler is being deleted": {in: on(ready, pilot(tells, auto, build.Deleting()), made(pilot(auto))), want: remove},
		"a second Scaler gets none":   {in: reported(on(ready, pilot(), scaler("second", 3, auto))), want: "noop UpToDate"},
		"a second Scaler had one":     {in: on(ready, pilot(), second(auto), made(second(auto))), want: "do AutoscalerKept: delete horizontalpodautoscalers second"},
		"the API server refuses it": {in: refusedAutoscaler(on(ready, pilot(auto))), want: told,
			status: "idle 3, Healthy False AutoscalerRefused, Failed False AutoscalerRefused, Progressing False AutoscalerRefused, Autoscaled False AutoscalerRefused"},
		"the API server refuses it, a scaling begins": {in: refusedAutoscaler(on(web(2, quiet(2)), pilot(auto))),
			want: `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy False AutoscalerRefused, Failed False AutoscalerRefused, Progressing True ScalingStarted, " +
				"Autoscaled False AutoscalerRefused"},
	})
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
