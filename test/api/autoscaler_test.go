//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/metrics"
)

// These tests are the round trip of an autoscaler. The metrics come from package metrics. The real
// HorizontalPodAutoscaler controller of the control plane checks each autoscaler every 15 s.

// queue returns a mode that scales by the external metric queue, with ten items per member.
func queue(lowest, most int32) *v1alpha1.ScalerMode {
	return &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: &lowest, MaxReplicas: most,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: kit.Quantity("10")}}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)}}}}
}

// queued sets the metric queue.
func (s scalers) queued(n int) {
	metrics.Set(s.T, s.Kube, s.Namespace, map[string]string{metrics.External("queue"): fmt.Sprint(n)})
}

// autoscaler returns the autoscaler of the Scaler, or nil.
func (s scalers) autoscaler(name string) *autoscalingv2.HorizontalPodAutoscaler {
	s.T.Helper()
	a, err := s.Kube.AutoscalingV2().HorizontalPodAutoscalers(s.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return a
}

// untilAutoscaled waits until the Scaler has an autoscaler, or has none.
func (s scalers) untilAutoscaled(is bool) {
	s.T.Helper()
	s.until(fmt.Sprintf("there is an autoscaler: %t", is), func(scaler *v1alpha1.Scaler) string {
		told, there := strings.HasPrefix(condition(scaler, v1alpha1.ConditionAutoscaled), "True"), s.autoscaler("web") != nil
		if told != is || there != is {
			return fmt.Sprintf("it is there: %t, condition %s", there, condition(scaler, v1alpha1.ConditionAutoscaled))
		}
		return ""
	})
}

// untilAsked waits until the Scaler's spec has the count.
func (s scalers) untilAsked(count int32) {
	s.T.Helper()
	s.until(fmt.Sprintf("the Scaler asks for %d", count), func(scaler *v1alpha1.Scaler) string {
		if got := ptr.Deref(scaler.Spec.Replicas, -1); got != count {
			return fmt.Sprintf("it asks for %d; %s", got, s.autoscalerSays())
		}
		return ""
	})
}

func (s scalers) autoscalerSays() string {
	a := s.autoscaler("web")
	if a == nil {
		return "there is no autoscaler"
	}
	var said []string
	for _, c := range a.Status.Conditions {
		said = append(said, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(said, "; ")
}

// TestAutoscalerRoundTrip: the metric rises, and the set scales up. It falls, and no member is removed before its hook.
// It rises again during the hook: the running scaling keeps its target, and the new request follows.
func TestAutoscalerRoundTrip(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Mode: queue(1, 4),
		Hooks: v1alpha1.ScalerHooks{Pre: hookJob("drain"), Post: hookJob("fill")}})
	metrics.Serve(t, s.Config)
	s.queued(25)
	s.hook("post")
	s.untilStage(v1alpha1.StageIdle, 3)

	s.hooks.hold(true)
	s.queued(5)
	if told := env(s.hook("pre")); told["REMOVED"] != "1,2" || told["CURRENT"] != "3" || told["DESIRED"] != "1" {
		t.Errorf("the hook is told %v", told)
	}
	s.queued(40)
	s.untilAsked(4)
	ticks(t, s.drive, 3)
	if scaler := s.get("web"); scaler.Status.Stage != v1alpha1.StagePreScaling || *scaler.Status.Desired != 1 ||
		statefulset.Replicas(s.Set("web")) != 3 {
		t.Errorf("during the hook the set has %d replicas: %+v", statefulset.Replicas(s.Set("web")), scaler.Status)
	}
	s.hooks.hold(false)
	s.until("all scalings have ended", func(scaler *v1alpha1.Scaler) string {
		var was []string
		for _, h := range scaler.Status.History {
			was = append(was, fmt.Sprintf("%d to %d %s", h.From, h.To, h.Result))
		}
		if got := strings.Join(was, ", "); got != "1 to 4 Succeeded, 3 to 1 Succeeded, 1 to 3 Succeeded" ||
			scaler.Status.Stage != v1alpha1.StageIdle {
			return got
		}
		return ""
	})
	s.noHooksAreLeft()
}

// TestAutoscalerByCPU: the mode auto adds members when the pods use too much CPU.
func TestAutoscalerByCPU(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	metrics.Serve(t, s.Config)
	set := kit.WorldSet("web", 1, "1Gi", "data")
	set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *kit.Quantity("100m")}
	s.CreateSet(set)
	metrics.Set(t, s.Kube, s.Namespace, map[string]string{metrics.CPU: "120m"})
	if err := s.create("web", v1alpha1.ScalerSpec{Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 2,
		CPUPercent: 50}}}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	if a := s.autoscaler("web"); a.Status.CurrentMetrics == nil || *a.Status.CurrentMetrics[0].Resource.Current.AverageUtilization != 120 {
		t.Errorf("the autoscaler saw %+v", a.Status)
	}
}

// TestPausedScalerHasNoAutoscaler: an autoscaler would change the count that the Scaler restores later.
func TestPausedScalerHasNoAutoscaler(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Mode: queue(1, 4)})
	metrics.Serve(t, s.Config)
	s.queued(20)
	s.untilStage(v1alpha1.StageIdle, 2)
	pause := func(on bool) { s.patch("web", map[string]any{"spec": map[string]any{"paused": on}}) }
	pause(true)
	s.untilAutoscaled(false)
	s.queued(30)
	s.untilStage(v1alpha1.StageIdle, 0)
	ticks(t, s.drive, 3)
	if got := s.get("web").Spec.Replicas; *got != 2 {
		t.Errorf("the paused Scaler asks for %d", *got)
	}
	pause(false)
	s.untilAutoscaled(true)
	s.untilStage(v1alpha1.StageIdle, 3)
}

// TestDeletedScalerTakesItsAutoscaler: the set stays unchanged.
func TestDeletedScalerTakesItsAutoscaler(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Mode: queue(1, 4)})
	s.untilAutoscaled(true)
	if err := s.Scalers().Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the autoscaler is collected", func() string {
		if s.autoscaler("web") != nil {
			return "it is there"
		}
		return ""
	})
	ticks(t, s.drive, 2)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
}

// TestAutoscalerIsRestored: scale reverts changes of another client, and restores a deleted autoscaler. It makes
// no write without effect, even if the API server fills in defaults.
func TestAutoscalerIsRestored(t *testing.T) {
	for name, mode := range map[string]*v1alpha1.ScalerMode{
		"hpa": queue(2, 4), "bare": {HPA: &v1alpha1.Autoscaler{MaxReplicas: 3}}, "auto": {Auto: &v1alpha1.AutoMode{Min: 1, Max: 3}},
		"rules": {HPA: &v1alpha1.Autoscaler{MaxReplicas: 3, Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp: &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.MinChangePolicySelect),
				Tolerance: kit.Quantity("0.2")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Mode: mode})
			var mu sync.Mutex
			var writes []string
			s.drive = s.Drive(&kit.Saboteur{OnWrite: func(write string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(write, "horizontalpodautoscalers") {
					writes = append(writes, write)
				}
			}})
			s.untilAutoscaled(true)
			s.untilStage(v1alpha1.StageIdle, 2)
			ticks(t, s.drive, 3)
			mu.Lock()
			if len(writes) != 1 {
				t.Errorf("it was written %d times: %v", len(writes), writes)
			}
			mu.Unlock()
			before, autoscalers := s.autoscaler("web"), s.Kube.AutoscalingV2().HorizontalPodAutoscalers(s.Namespace)
			if owner := metav1.GetControllerOf(before); owner == nil || owner.UID != s.get("web").UID {
				t.Errorf("its owner is %v", owner)
			}
			body := `{"spec":{"maxReplicas":9,"scaleTargetRef":{"name":"other"}}}`
			if _, err := autoscalers.Patch(context.Background(), "web", types.MergePatchType, []byte(body),
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			s.until("it is as before", func(*v1alpha1.Scaler) string {
				if is := s.autoscaler("web").Spec; is.MaxReplicas != before.Spec.MaxReplicas || is.ScaleTargetRef.Name != "web" {
					return fmt.Sprintf("%+v", is)
				}
				return ""
			})
			if err := autoscalers.Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			s.untilAutoscaled(true)
			s.patch("web", map[string]any{"spec": map[string]any{"mode": nil}})
			s.untilAutoscaled(false)
		})
	}
}

// TestRefusedAutoscalerStopsNoScaling: the API server rejects the metric. The Scaler reports that and still scales.
func TestRefusedAutoscalerStopsNoScaling(t *testing.T) {
	mode := queue(1, 4)
	mode.HPA.Metrics[0].External.Target.AverageValue = kit.Quantity("-1")
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Mode: mode})
	s.Expect(http.StatusUnprocessableEntity, api.ScaleFunction, "the metric of the autoscaler is negative")
	s.untilStage(v1alpha1.StageIdle, 1)
	s.scale(2)
	scaler := s.untilStage(v1alpha1.StageIdle, 2)
	if got := condition(scaler, v1alpha1.ConditionAutoscaled); !strings.HasPrefix(got, "False "+string(api.AutoscalerRefused)) ||
		!strings.Contains(got, "averageValue") {
		t.Error(got)
	}
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False "+string(api.AutoscalerRefused)) {
		t.Error(got)
	}
	before := s.until("it is told", func(scaler *v1alpha1.Scaler) string {
		if scaler.Status.ObservedGeneration != scaler.Generation {
			return "not yet"
		}
		return ""
	})
	ticks(t, s.drive, 3)
	if after := s.get("web"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status changes with each try: %+v, was %+v", after.Status, before.Status)
	}
}

// TestRefusedAutoscalerHidesNoRefusedHook: if the API server rejects both, the scaling fails because of its hook.
func TestRefusedAutoscalerHidesNoRefusedHook(t *testing.T) {
	mode, refused := queue(1, 4), hookJob("pre")
	mode.HPA.Metrics[0].External.Target.AverageValue = kit.Quantity("-1")
	refused.Job.Template.Raw = []byte(`{"spec":{"containers":[{"name":"No Name","image":"pre"}]}}`)
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Mode: mode, Hooks: v1alpha1.ScalerHooks{Pre: refused}})
	s.Expect(http.StatusUnprocessableEntity, api.ScaleFunction, "the autoscaler and the hook are invalid")
	s.untilStage(v1alpha1.StageIdle, 1)
	s.scale(2)
	scaler := s.untilStage(v1alpha1.StageFailed, 1)
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False "+string(api.Rejected)) ||
		!strings.Contains(got, "No Name") {
		t.Error(got)
	}
	if got := condition(scaler, v1alpha1.ConditionAutoscaled); !strings.HasPrefix(got, "False "+string(api.AutoscalerRefused)) {
		t.Error(got)
	}
}
