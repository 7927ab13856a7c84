//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// scalers is a world with Scalers.
type scalers struct {
	*kit.World
	drive *kit.Drive
	hooks *scaleHooks
}

func scalersOf(w *kit.World) scalers { return scalers{w, w.Drive(nil), playScaleHooks(w)} }

// scaleHooks plays the containers of a Scaler's hooks: each ends as soon as it runs, unless it is held.
type scaleHooks struct {
	mu    sync.Mutex
	held  bool
	fails string // the image that exits with 3 and a message
}

func (h *scaleHooks) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = on
}

func (h *scaleHooks) fail(image string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = image
}

// playScaleHooks plays hooks until the test ends.
func playScaleHooks(w *kit.World) *scaleHooks {
	h := &scaleHooks{}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			h.endAll(ctx, w)
			<-time.After(50 * time.Millisecond)
		}
	})
	w.T.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return h
}

func (h *scaleHooks) endAll(ctx context.Context, w *kit.World) {
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
	if err != nil {
		return // the next round tries again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, pod := range pods.Items {
		if h.held || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil ||
			!strings.HasSuffix(pod.Labels[batchv1.JobNameLabel], "-scaling") {
			continue
		}
		end, phase := &corev1.ContainerStateTerminated{FinishedAt: kit.SettledEnd()}, corev1.PodSucceeded
		if pod.Spec.Containers[0].Image == h.fails {
			end, phase = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error",
				Message: "web-1 has\x1b[1m shards\n"}, corev1.PodFailed
		}
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name,
			State: corev1.ContainerState{Terminated: end}}}
		_, _ = w.Kube.CoreV1().Pods(w.Namespace).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}) // the next round tries again
	}
}

// scaledWorld returns a new world with a ready set and a Scaler.
func scaledWorld(t *testing.T, replicas int32, spec v1alpha1.ScalerSpec) scalers {
	t.Helper()
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	s.CreateSet(kit.WorldSet("web", replicas, "1Gi", "data"))
	if err := s.create("web", spec); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s scalers) create(name string, spec v1alpha1.ScalerSpec) error {
	spec.Target = "web"
	return s.CreateScaler(name, spec)
}

// get reads a Scaler that must exist.
func (s scalers) get(name string) *v1alpha1.Scaler {
	s.T.Helper()
	scaler := s.Scaler(name)
	if scaler == nil {
		s.T.Fatalf("there is no Scaler %s", name)
	}
	return scaler
}

func (s scalers) patch(name string, content map[string]any, subresources ...string) {
	s.T.Helper()
	body, err := json.Marshal(content)
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := s.Scalers().Patch(context.Background(), name, types.MergePatchType, body, metav1.PatchOptions{},
		subresources...); err != nil {
		s.T.Fatal(err)
	}
}

// scale scales the Scaler like kubectl scale and an autoscaler.
func (s scalers) scale(count int) {
	s.patch("web", map[string]any{"spec": map[string]any{"replicas": count}}, "scale")
}

func (s scalers) retry() {
	s.patch("web", map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.RetryAnnotation: ""}}})
}

// until ticks until check returns an empty string, and returns the Scaler.
func (s scalers) until(what string, check func(*v1alpha1.Scaler) string) *v1alpha1.Scaler {
	s.T.Helper()
	var scaler *v1alpha1.Scaler
	s.Eventually(what, func() string {
		if err := s.drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		scaler = s.get("web")
		return check(scaler)
	})
	return scaler
}

func (s scalers) untilStage(stage v1alpha1.Stage, replicas int32) *v1alpha1.Scaler {
	s.T.Helper()
	return s.until(fmt.Sprintf("the Scaler is %s at %d", stage, replicas), func(scaler *v1alpha1.Scaler) string {
		if got := scaler.Status; got.Stage != stage || got.Replicas != replicas {
			return fmt.Sprintf("it is %s at %d: %s", got.Stage, got.Replicas, condition(scaler, v1alpha1.ConditionHealthy))
		}
		return ""
	})
}

// condition renders a condition as STATUS REASON MESSAGE.
func condition(scaler *v1alpha1.Scaler, kind string) string {
	for _, c := range scaler.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	return "none"
}

func hookJob(image string) *v1alpha1.Hook {
	template := `{"spec":{"containers":[{"name":"hook","image":"` + image + `"}]}}`
	return &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
}

// hook waits until the hook of the kind runs, and returns its Job.
func (s scalers) hook(kind string) *batchv1.Job {
	s.T.Helper()
	var found *batchv1.Job
	s.until("hook "+kind+" runs", func(*v1alpha1.Scaler) string {
		jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: api.OperationLabel})
		if err != nil {
			return err.Error()
		}
		for i := range jobs.Items {
			if strings.Contains(jobs.Items[i].Name, "-"+kind+"-scaling") && jobs.Items[i].DeletionTimestamp == nil {
				found = &jobs.Items[i]
				return ""
			}
		}
		return fmt.Sprintf("there are %d Jobs", len(jobs.Items))
	})
	return found
}

// env returns the variables of the hook, without their prefix.
func env(job *batchv1.Job) map[string]string {
	told := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		told[strings.TrimPrefix(e.Name, "DRYDOCK_")] = e.Value
	}
	return told
}

// TestScalerAdoptsPresentCount: creating a Scaler scales nothing, and its status shows the present count.
func TestScalerAdoptsPresentCount(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{})
	generation := s.Set("web").Generation
	s.untilStage(v1alpha1.StageIdle, 2)
	scaler := s.until("the count is the Scaler's", func(scaler *v1alpha1.Scaler) string {
		if scaler.Spec.Replicas == nil || scaler.Status.ObservedGeneration != scaler.Generation {
			return fmt.Sprintf("generation %d of %d", scaler.Status.ObservedGeneration, scaler.Generation)
		}
		return ""
	})
	set := s.Set("web")
	if *scaler.Spec.Replicas != 2 || set.Generation != generation || scaler.Status.Target.UID != set.UID ||
		scaler.Status.Selector != metav1.FormatLabelSelector(set.Spec.Selector) {
		t.Errorf("spec %v, generation %d, was %d, status %+v", scaler.Spec.Replicas, set.Generation, generation, scaler.Status)
	}
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "True") {
		t.Error(got)
	}
	version, setVersion := scaler.ResourceVersion, set.ResourceVersion
	ticks(t, s.drive, 3)
	if after := s.get("web"); after.ResourceVersion != version || s.Set("web").ResourceVersion != setVersion {
		t.Error("something was written that changes nothing")
	}
}

// TestScaleDownWaitsForItsHook: the count changes after the hook has succeeded. The hook gets the removed ordinals.
func TestScaleDownWaitsForItsHook(t *testing.T) {
	s := scaledWorld(t, 3, v1alpha1.ScalerSpec{Replicas: ptr.To[int32](3),
		Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre"), Post: hookJob("post")}})
	s.untilStage(v1alpha1.StageIdle, 3)
	s.hooks.hold(true)
	s.scale(1)
	pre := s.hook("pre")
	told := env(pre)
	for key, want := range map[string]string{"DIRECTION": "down", "CURRENT": "3", "DESIRED": "1", "REMOVED": "1,2", "ADDED": "",
		"SET": "web", "SCALER": "web", "HOOK": "pre"} {
		if told[key] != want {
			t.Errorf("DRYDOCK_%s is %q, want %q", key, told[key], want)
		}
	}
	s.scale(2) // a newer request waits for the end
	ticks(t, s.drive, 3)
	if n := statefulset.Replicas(s.Set("web")); n != 3 {
		t.Fatalf("the set has %d replicas while the hook runs", n)
	}
	if scaler := s.get("web"); scaler.Status.Stage != v1alpha1.StagePreScaling || *scaler.Status.Desired != 1 {
		t.Errorf("%+v", scaler.Status)
	}
	s.hooks.hold(false)
	s.untilStage(v1alpha1.StageIdle, 2)
	scaler := s.until("both have ended", func(scaler *v1alpha1.Scaler) string {
		if len(scaler.Status.History) < 2 || scaler.Status.ObservedGeneration != scaler.Generation {
			return fmt.Sprintf("%+v", scaler.Status.History)
		}
		return ""
	})
	if h := scaler.Status.History; h[1].From != 3 || h[1].To != 1 || h[0].From != 1 || h[0].To != 2 || h[0].Result != "Succeeded" {
		t.Errorf("history: %+v", h)
	}
	s.noHooksAreLeft()
}

func (s scalers) noHooksAreLeft() {
	s.T.Helper()
	s.until("no Job of a hook is left", func(*v1alpha1.Scaler) string {
		jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if n := len(jobs.Items); n > 0 {
			return fmt.Sprintf("%d are there", n)
		}
		return ""
	})
}

// TestFailedHookStopsScaling: the count does not change, the onFailure hook runs once, and a retry repeats the stage.
func TestFailedHookStopsScaling(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("fails"), OnFailure: hookJob("report")}})
	s.untilStage(v1alpha1.StageIdle, 2)
	s.hooks.fail("fails")
	s.scale(3)
	s.hook("onfailure")
	scaler := s.until("the scaling has failed", func(scaler *v1alpha1.Scaler) string {
		if len(scaler.Status.History) == 0 {
			return string(scaler.Status.Stage)
		}
		return ""
	})
	if f := scaler.Status.Failed; scaler.Status.Stage != v1alpha1.StageFailed || f == nil || f.FailedAt != v1alpha1.StagePreScaling ||
		f.Reason != string(api.HookFailed) {
		t.Errorf("%s, %+v", scaler.Status.Stage, f)
	}
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False HookFailed") ||
		!mentions(got, api.RetryAnnotation, "container hook", " 3", "web-1 has [1m shards") {
		t.Error(got)
	}
	ticks(t, s.drive, 3)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
	s.noHooksAreLeft()
	s.hooks.fail("")
	s.retry()
	scaler = s.untilStage(v1alpha1.StageIdle, 3)
	if _, asked := scaler.Annotations[api.RetryAnnotation]; asked {
		scaler = s.until("the retry is taken", func(scaler *v1alpha1.Scaler) string {
			if _, asked := scaler.Annotations[api.RetryAnnotation]; asked {
				return "it is there"
			}
			return ""
		})
	}
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "True") || scaler.Status.Failed != nil {
		t.Errorf("%s, %+v", got, scaler.Status.Failed)
	}
}

// TestRefusedHookFailsScaling: the API server rejects the container's name. The onFailure hook still runs.
func TestRefusedHookFailsScaling(t *testing.T) {
	refused := hookJob("pre")
	refused.Job.Template.Raw = []byte(`{"spec":{"containers":[{"name":"No Name","image":"pre"}]}}`)
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: refused, OnFailure: hookJob("report")}})
	s.Expect(http.StatusUnprocessableEntity, api.ScaleFunction, "the hook is invalid")
	s.untilStage(v1alpha1.StageIdle, 2)
	s.scale(1)
	s.hook("onfailure")
	scaler := s.until("the scaling has failed", func(scaler *v1alpha1.Scaler) string {
		if len(scaler.Status.History) == 0 {
			return string(scaler.Status.Stage)
		}
		return ""
	})
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False Rejected") || !strings.Contains(got, "No Name") {
		t.Error(got)
	}
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
}

// TestDeletedScalerLeavesSet with its count and without a record.
func TestDeletedScalerLeavesSet(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}})
	s.untilStage(v1alpha1.StageIdle, 2)
	s.hooks.hold(true)
	s.scale(1)
	s.hook("pre")
	if err := s.Scalers().Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("nothing is left of the Scaler", func() string {
		if err := s.drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if _, recorded := s.Set("web").Annotations[api.ScaleAnnotation]; err != nil || recorded || len(jobs.Items) > 0 {
			return fmt.Sprintf("recorded %t, %d Jobs, %v", recorded, len(jobs.Items), err)
		}
		return ""
	})
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
}

// TestSchemaOfScaler: the API server rejects invalid values.
func TestSchemaOfScaler(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	for name, spec := range map[string]v1alpha1.ScalerSpec{
		"fewer than none":     {Replicas: ptr.To[int32](-1)},
		"an unknown policy":   {ConflictPolicy: "fight"},
		"no deadline":         {Deadlines: v1alpha1.ScalerDeadlines{Pre: "0s"}},
		"a deadline in weeks": {Deadlines: v1alpha1.ScalerDeadlines{Post: "1w"}},
		"an endless history":  {HistoryLimit: ptr.To[int32](1000)},
		"no mode":             {Mode: &v1alpha1.ScalerMode{}},
		"two modes":           {Mode: &v1alpha1.ScalerMode{Fixed: ptr.To[int32](1), ExternallyScaled: &v1alpha1.ExternalMode{}}},
		"a fixed count of 0":  {Mode: &v1alpha1.ScalerMode{Fixed: ptr.To[int32](0)}},
		"a minimum of 0":      {Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 0, Max: 2}}},
		"fewer at most":       {Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 3, Max: 2}}},
		"no CPU":              {Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 2, CPUPercent: -1}}},
		"an hpa from 0":       {Mode: &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](0), MaxReplicas: 2}}},
		"an hpa of fewer":     {Mode: &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](3), MaxReplicas: 2}}},
		"an hpa of none":      {Mode: &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{}}},
		"endless tries":       {Hooks: v1alpha1.ScalerHooks{Pre: hookWithTries("pre", 11)}},
		"tries below none":    {Hooks: v1alpha1.ScalerHooks{Pre: hookWithTries("pre", -1)}},
		"another protocol":    {Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("ftp://drain/")}},
		"a URL with a user":   {Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("http://user:word@drain/")}},
		"a URL with no host":  {Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("http:///hook")}},
		"a URL with a port":   {Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("http://:80/hook")}},
		"no URL":              {Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("http://%zz/")}},
	} {
		if err := s.create("bad", spec); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResizeAndScalingExcludeEachOther: a set has one operation at a time.
func TestResizeAndScalingExcludeEachOther(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}})
	s.untilStage(v1alpha1.StageIdle, 2)
	s.hooks.hold(true)
	s.scale(1)
	s.hook("pre")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=2Gi"})
	ticks(t, s.drive, 3)
	if _, begun := s.Set("web").Annotations[api.StatusAnnotation]; begun {
		t.Error("a resize began during the scaling")
	}
	s.hooks.hold(false)
	s.untilStage(v1alpha1.StageIdle, 1)
	s.Eventually("the resize begins", func() string {
		if err := s.drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if _, begun := s.Set("web").Annotations[api.StatusAnnotation]; !begun {
			return "there is no record"
		}
		return ""
	})
}
