package api

import (
	"context"
	"slices"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// autoscaler is the account with which Kubernetes' own autoscaler scales.
const autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// TestI4AutoscalerWaitsAtZero: Kubernetes' own, which looks every 15 s, leaves a set at zero alone, and nothing is copied again.
func TestI4AutoscalerWaitsAtZero(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[quiescedNow])
	drive := r.reach()
	autoscale(t, r.World, 2, nil)
	r.Eventually("it has seen the set at zero", func() string {
		scaler, err := r.Kube.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Get(context.Background(), "web", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		disabled := func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason == "ScalingDisabled"
		}
		if !slices.ContainsFunc(scaler.Status.Conditions, disabled) {
			return "it has not"
		}
		return ""
	})
	r.stop.release(r.World)
	status := r.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round != 1 {
		t.Errorf("round %d", status.Round)
	}
	r.expectGivenBack(t, drive)
}

// TestI4AutoscalerScalesARunningSet: as it raises its minimum while the first copy is made. What the set had when it was stopped comes
// back.
func TestI4AutoscalerScalesARunningSet(t *testing.T) {
	w, drive := copiedWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	holdWarm(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilWarming(t, w, drive, 2)
	autoscale(t, w, 3, nil)
	untilReady(w, drive, "web", 3)
	holdWarm(w, false)
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Replicas != 3 {
		t.Errorf("%d replicas", status.Replicas)
	}
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1")
}

// TestI4AutoscalerScalesAStoppedSet: one that does not know the rule, without the policy in its way. What was copied counts for nothing,
// and the set gets what it had.
func TestI4AutoscalerScalesAStoppedSet(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[quiescedNow])
	drive := r.reach()
	if err := as(r.World, autoscaler).TryScaleTo("web", 3); err != nil {
		t.Fatal(err)
	}
	r.untilPodsRun()
	r.stop.release(r.World)
	status := r.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round < 2 {
		t.Errorf("round %d: the stale copy was used", status.Round)
	}
	r.expectGivenBack(t, drive)
}

// TestI4ReplicasPutBackAgainAndAgain: by a tool that nobody stops. It is given up, with the replicas that the set had.
func TestI4ReplicasPutBackAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	last := 0
	drive := w.Drive(&kit.Saboteur{OnWrite: func(string) {
		if status := w.Status("web"); status != nil && status.Phase == api.Copying && status.Generation != 0 && status.Round > last {
			last = status.Round
			w.TryScale("web", 2)
		}
	}})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.StartedByOthers || last != 3 || !slices.Contains(drive.Seen, "operation.failed") {
		t.Errorf("after %d rounds: %s", last, describe(status))
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	expectEvents(t, w, "web", "Warning StartedByOthers")
}

// TestI4ReplicasPutBackBeforeTheSwitch: what was copied and verified is stale then, and no claim gets it.
func TestI4ReplicasPutBackBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[verifiedNow])
	drive := r.reach()
	r.Scale("web", 2)
	r.untilPodsRun()
	status := r.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round < 2 {
		t.Errorf("round %d: the stale copy was used", status.Round)
	}
	r.expectGivenBack(t, drive)
}

// untilPodsRun waits for pods that write, and ticks nothing meanwhile.
func (r *resized) untilPodsRun() {
	r.T.Helper()
	r.Eventually("every pod runs", func() string {
		if set := r.Set("web"); set.Status.ReadyReplicas != *set.Spec.Replicas {
			return "not all of them do"
		}
		return ""
	})
}

// TestI4WhoMadeTheAutoscaler: what made it might scale from zero, too. It is paused for the time, or nothing is touched.
func TestI4WhoMadeTheAutoscaler(t *testing.T) {
	t.Parallel()
	t.Run("KEDA", func(t *testing.T) {
		t.Parallel()
		w, row := kit.NewWorld(t), rowOf(t, "keda.sh", "ScaledObject")
		w.MayPause(row.Operator)
		w.DefineKind(row, "ScaledObject")
		maker := w.CreateCustom(row, "ScaledObject", "main", map[string]any{}, nil)
		before, stopped := content(maker), 0
		w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
		autoscale(t, w, 1, maker)
		w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
		drive := w.Drive(nil)
		drive.Passed = func(e event.Event) {
			if e.Type() == events.BackupCompleted {
				stopped++
				if now := w.Custom(row, "ScaledObject", "main"); !row.Paused(now) {
					t.Errorf("it is not paused: %v", now.Object)
				}
			}
		}
		expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
		if stopped != 1 {
			t.Errorf("it was looked at %d times", stopped)
		}
		expectResumed(t, w, drive, row, "ScaledObject", before)
		expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	})
	t.Run("somebody whom Drydock does not know", func(t *testing.T) {
		t.Parallel()
		w := kit.NewWorld(t)
		w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
		maker := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		made, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "maker"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		maker.SetName(made.Name)
		maker.SetUID(made.UID)
		autoscale(t, w, 1, maker)
		w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
		status := w.Finish(w.Drive(nil), "web")
		expectPhase(t, status, api.Failed)
		if status.Reason != api.OwnerNotPausable || status.FailedAt != api.Planned || status.Stopped != nil {
			t.Errorf("at %s, stopped %v: %s", status.FailedAt, status.Stopped, describe(status))
		}
		expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	})
}
