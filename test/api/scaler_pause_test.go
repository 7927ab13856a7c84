//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

func (s scalers) pause(on bool) { s.patch("web", map[string]any{"spec": map[string]any{"paused": on}}) }

// TestPausedScalerRestoresItsMembers: the hooks run in both directions, the claims stay, and the count is restored.
func TestPausedScalerRestoresItsMembers(t *testing.T) {
	s := scaledWorld(t, 3, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}})
	s.untilStage(v1alpha1.StageIdle, 3)
	claims := s.ClaimUIDs()
	s.pause(true)
	if removed := env(s.hook("pre"))["REMOVED"]; removed != "0,1,2" {
		t.Errorf("the hook is told that %q go", removed)
	}
	scaler := s.untilStage(v1alpha1.StageIdle, 0)
	if got := condition(scaler, v1alpha1.ConditionProgressing); !strings.HasPrefix(got, "False Paused ") ||
		!mentions(got, " 3 ", "spec.paused") {
		t.Error(got)
	}
	if *scaler.Spec.Replicas != 3 {
		t.Errorf("it wants %d", *scaler.Spec.Replicas)
	}
	version := s.Set("web").ResourceVersion
	ticks(t, s.drive, 2)
	if s.Set("web").ResourceVersion != version {
		t.Error("a set that is paused was written to")
	}
	s.pause(false)
	s.untilStage(v1alpha1.StageIdle, 3)
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
}

// TestPauseIsNoScaleDown: cleanup-pod does not clean up paused members, even without the set's record or the Scaler.
func TestPauseIsNoScaleDown(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	startCleaned(s.World, s.drive, s.SetWithCleanup("web", 2))
	if err := s.create("web", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	claims := s.ClaimUIDs()
	s.pause(true)
	s.untilStage(v1alpha1.StageIdle, 0)
	s.Annotate("web", map[string]string{api.ScaleAnnotation: ""})
	ticks(t, s.drive, 2)
	if err := s.Scalers().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ticks(t, s.drive, 3)
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
	s.Scale("web", 2)
	s.Eventually("the record goes with the Scaler", func() string {
		ticks(t, s.drive, 1)
		return s.Set("web").Annotations[api.ScaleAnnotation]
	})
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
}

// TestPauseRetainsClaims whatever whenScaled is. The set gets its policy back with its pods.
func TestPauseRetainsClaims(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	set := kit.WorldSet("web", 2, "1Gi", "data")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	s.CreateSet(set)
	if err := s.create("web", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	claims := s.ClaimUIDs()
	s.pause(true)
	s.untilStage(v1alpha1.StageIdle, 0)
	if policy := statefulset.WhenScaled(s.Set("web")); policy != statefulset.Retain {
		t.Errorf("whenScaled is %s during the pause", policy)
	}
	s.pause(false)
	s.untilStage(v1alpha1.StageIdle, 2)
	s.untilPolicyIsBack()
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
}

// idleScaledWorld returns a new world with a ready set of two members, which may sleep, and a Scaler with a pre hook.
func idleScaledWorld(t *testing.T, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) scalers {
	t.Helper()
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	set := kit.WorldSet("web", 2, "1Gi", "data")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: whenScaled}
	set.Annotations[api.IdleTimeoutAnnotation], set.Annotations[api.LastActivityAnnotation] = "1h", kit.Ago(time.Minute)
	s.CreateSet(set)
	if err := s.create("web", v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	return s
}

// TestSleepRunsHooks: a set with a Scaler sleeps and wakes by scalings of the Scaler, and keeps its claims with every
// whenScaled.
func TestSleepRunsHooks(t *testing.T) {
	s := idleScaledWorld(t, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	claims := s.ClaimUIDs()
	s.hooks.hold(true)
	sendSetEvent(t, s.World, s.drive, events.Sleep, "web")
	if told := env(s.hook("pre")); told["DIRECTION"] != "down" || told["REMOVED"] != "0,1" {
		t.Errorf("the hook is told %v", told)
	}
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas while the hook runs", n)
	}
	s.hooks.hold(false)
	s.UntilSleep(s.drive, "web", api.Asleep)
	if s.get("web").Spec.Paused {
		t.Error("the sleep has paused the Scaler")
	}
	sendSetEvent(t, s.World, s.drive, events.Wake, "web")
	s.UntilSleep(s.drive, "web", api.Succeeded)
	s.untilStage(v1alpha1.StageIdle, 2)
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
	s.untilPolicyIsBack()
}

// TestSetCreatedAgainDuringSleepRuns: the new set has no sleep, so nothing holds it at zero.
func TestSetCreatedAgainDuringSleepRuns(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	manifest := kit.WorldSet("web", 2, "1Gi", "data")
	manifest.Annotations[api.IdleTimeoutAnnotation], manifest.Annotations[api.LastActivityAnnotation] = "1h", kit.Ago(time.Minute)
	again := manifest.DeepCopy()
	s.CreateSet(manifest)
	if err := s.create("web", v1alpha1.ScalerSpec{Replicas: ptr.To[int32](2)}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	claims := s.ClaimUIDs()
	sendSetEvent(t, s.World, s.drive, events.Sleep, "web")
	s.UntilSleep(s.drive, "web", api.Asleep)
	if err := s.Kube.AppsV1().StatefulSets(s.Namespace).Delete(s.T.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.CreateSet(again)
	s.untilStage(v1alpha1.StageIdle, 2)
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
}

// TestWakeDuringHook: the scaling to zero ends first, the set wakes, and its claims stay.
func TestWakeDuringHook(t *testing.T) {
	s := idleScaledWorld(t, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	claims := s.ClaimUIDs()
	s.hooks.hold(true)
	sendSetEvent(t, s.World, s.drive, events.Sleep, "web")
	s.hook("pre")
	sendSetEvent(t, s.World, s.drive, events.Wake, "web")
	ticks(t, s.drive, 2)
	s.hooks.hold(false)
	s.UntilSleep(s.drive, "web", api.Succeeded)
	s.untilStage(v1alpha1.StageIdle, 2)
	if after := s.ClaimUIDs(); after != claims {
		t.Errorf("claims %s, were %s", after, claims)
	}
	s.untilPolicyIsBack()
}

// untilPolicyIsBack waits until scale has given the set its retention policy Delete back, and removed the stop.
func (s scalers) untilPolicyIsBack() {
	s.T.Helper()
	s.Eventually("the set has its policy back", func() string {
		if err := s.drive.Tick(s.T.Context()); err != nil {
			return err.Error()
		}
		if policy := statefulset.WhenScaled(s.Set("web")); policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			return string(policy)
		}
		return s.Set("web").Annotations[api.StopAnnotation]
	})
}

// TestPostHookIsCleanup: the scaling ends when cleanup-pod has deleted the claims of the removed members.
func TestPostHookIsCleanup(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	startCleaned(s.World, s.drive, s.SetWithCleanup("web", 3))
	if err := s.create("web", v1alpha1.ScalerSpec{
		Hooks: v1alpha1.ScalerHooks{Post: &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}}}}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 3)
	s.scale(1)
	s.until("the claims go before the scaling ends", func(scaler *v1alpha1.Scaler) string {
		gone := s.Node.DeletedClaims()
		if scaler.Status.Stage == v1alpha1.StageIdle && *scaler.Status.Desired == 1 && len(gone) < 2 {
			t.Fatalf("it is idle, and only %v have gone", gone)
		}
		if scaler.Status.Stage != v1alpha1.StageIdle || len(gone) != 2 {
			return fmt.Sprintf("%s, gone %v", scaler.Status.Stage, gone)
		}
		return ""
	})
	gone := s.Node.DeletedClaims()
	slices.Sort(gone)
	if !slices.Equal(gone, []string{"data-web-1", "data-web-2"}) {
		t.Errorf("deleted claims: %v", gone)
	}
}

// answerer is a user's function that gets the requests of hooks.
type answerer struct {
	mu    sync.Mutex
	asked []event.Event
}

func (a *answerer) passed(e event.Event) {
	if e.Type() != events.ScaleHookRequested {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, e)
}

func (a *answerer) latest() *event.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return nil
	}
	return &a.asked[len(a.asked)-1]
}

// TestHookByCloudEvent: the request describes the scaling. The function's answer continues it. An answer without the
// key does not.
func TestHookByCloudEvent(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}}}})
	theirs := &answerer{}
	s.drive.OnEvent = theirs.passed
	s.untilStage(v1alpha1.StageIdle, 2)
	s.scale(1)
	s.until("the function is asked", func(*v1alpha1.Scaler) string {
		if theirs.latest() == nil {
			return "it is not"
		}
		return ""
	})
	request := *theirs.latest()
	told := events.HookRequest{}
	if err := request.DataAs(&told); err != nil {
		t.Fatal(err)
	}
	if told.Hook != "pre" || told.Direction != "down" || told.Set != "web" || !slices.Equal(told.Removed, []int{1}) || len(told.Key) < 20 {
		t.Errorf("it is told %+v", told)
	}
	if strings.Contains(s.Set("web").Annotations[api.ScaleAnnotation], told.Key) {
		t.Error("the key is in the record, where others read it")
	}
	forged := told
	forged.Key = "guess"
	s.answer(request, events.ScaleHookCompleted, forged)
	ticks(t, s.drive, 1)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Fatalf("a forged answer has scaled the set to %d", n)
	}
	s.answer(request, events.ScaleHookCompleted, told)
	s.untilStage(v1alpha1.StageIdle, 1)
	s.scale(0)
	s.until("the function is asked again", func(*v1alpha1.Scaler) string {
		if theirs.latest().ID() == request.ID() {
			return "it is not"
		}
		return ""
	})
	second := *theirs.latest()
	s.answer(second, events.ScaleHookCompleted, told) // of the previous scaling
	ticks(t, s.drive, 1)
	if n := statefulset.Replicas(s.Set("web")); n != 1 {
		t.Fatalf("an old answer has scaled the set to %d", n)
	}
	if err := second.DataAs(&told); err != nil {
		t.Fatal(err)
	}
	told.Message = "some data cannot be moved"
	s.answer(second, events.ScaleHookFailed, told)
	scaler := s.untilStage(v1alpha1.StageFailed, 1)
	if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.Contains(got, told.Message) {
		t.Error(got)
	}
}

// answer sends an answer of the user's function.
func (s scalers) answer(request event.Event, eventType string, data events.HookRequest) {
	s.T.Helper()
	answer := request.Clone()
	answer.SetType(eventType)
	answer.SetID(answer.ID() + "/" + time.Now().String())
	if err := answer.SetData(event.ApplicationJSON, data); err != nil {
		s.T.Fatal(err)
	}
	if err := s.drive.Send(context.Background(), answer); err != nil {
		s.T.Fatal(err)
	}
	if err := s.drive.Drain(context.Background()); err != nil {
		s.T.Fatal(err)
	}
}

// force scales the set past the policies, as in a cluster without them.
func (s scalers) force(count int32) {
	s.T.Helper()
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, count)
	if _, err := s.Kube.AppsV1().StatefulSets(s.Namespace).Patch(context.Background(), "web", types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: "drydock"}); err != nil {
		s.T.Fatal(err)
	}
}

// TestSetWithScalerIsScaledByIt: policies deny a direct write of the count, also through the subresource. The answer
// has the command to use.
func TestSetWithScalerIsScaledByIt(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 2)
	sets := s.Kube.AppsV1().StatefulSets(s.Namespace)
	write := func() error {
		_, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
		return err
	}
	for policy, try := range map[string]func() error{
		"drydock-scaled-sets":   write,
		"drydock-scaled-scales": func() error { return s.TryScaleTo("web", 3) },
	} {
		s.Eventually("policy "+policy+" denies the write", func() string {
			if err := try(); !deniedBy(err, policy, "--replicas=3") {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	if _, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":2,"minReadySeconds":1}}`),
		metav1.PatchOptions{}); err != nil {
		t.Errorf("a manifest with the count that there is: %v", err)
	}
	s.patch("web", map[string]any{"spec": map[string]any{"conflictPolicy": "adopt"}})
	s.Eventually("the count is the client's where the Scaler adopts it", func() string {
		ticks(t, s.drive, 1)
		if err := write(); err != nil {
			return err.Error()
		}
		return ""
	})
	s.untilStage(v1alpha1.StageIdle, 3)
	if got := ptr.Deref(s.get("web").Spec.Replicas, 0); got != 3 {
		t.Errorf("the Scaler wants %d", got)
	}
}
