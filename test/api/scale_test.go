//go:build cluster

package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// autoscaler is the account of Kubernetes' autoscaler.
const autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// TestScaleAtEveryPhaseIsKept: the set keeps the replicas of the autoscaler or the user, and every claim is complete.
func TestScaleAtEveryPhaseIsKept(t *testing.T) {
	t.Parallel()
	for _, name := range []string{plannedNow, copyNow, waitNow, stoppingNow, finalNow, verifiedNow, swapNow, startNow} {
		for _, replicas := range []int32{1, 3} {
			t.Run(fmt.Sprintf("%s, to %d", name, replicas), func(t *testing.T) {
				t.Parallel()
				r := newResized(t, stops[name])
				drive := r.reach()
				if err := asUser(r.World, autoscaler).TryScaleTo("web", replicas); err != nil {
					t.Fatal(err)
				}
				_ = drive.Tick(context.Background())
				r.stop.release(r.World)
				expectPhase(t, r.Finish(drive, "web"), api.Succeeded)
				expectSize(t, r.World, "128Mi", r.claim...)
				expectWhole(t, r.World, "web", replicas, r.claim...)
				expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
			})
		}
	}
}

// TestAutoscalerScalesHeldSet: a real HorizontalPodAutoscaler, which keeps within its bounds without metrics, scales
// the set while both members are held.
func TestAutoscalerScalesHeldSet(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[stoppingNow])
	drive := r.reach()
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"},
			MinReplicas:    ptr.To[int32](3), MaxReplicas: 5,
		}}
	if _, err := r.Kube.AutoscalingV2().HorizontalPodAutoscalers(r.Namespace).Create(t.Context(), scaler,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the autoscaler has scaled the set", func() string {
		if is := *r.Set("web").Spec.Replicas; is != 3 {
			return fmt.Sprintf("it has %d replicas", is)
		}
		return ""
	})
	_ = drive.Tick(context.Background())
	r.stop.release(r.World)
	expectPhase(t, r.Finish(drive, "web"), api.Succeeded)
	expectSize(t, r.World, "128Mi", r.claim...)
	expectWhole(t, r.World, "web", 3, r.claim...)
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
}

// TestRemovedHoldRepeatsCopy: the pod starts and writes, so the copy is stale.
func TestRemovedHoldRepeatsCopy(t *testing.T) {
	t.Parallel()
	for _, name := range []string{stoppingNow, finalNow, verifiedNow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			drive := r.reach()
			if name == stoppingNow {
				r.stop.release(r.World)
			}
			ordinal := 0
			if old := r.Claim("data-web-0"); old == nil || old.DeletionTimestamp != nil || r.size(old.Name) == 128 {
				ordinal = 1 // the swap of the first has begun before the other copy was verified
			}
			r.ReleasePod(fmt.Sprintf("web-%d", ordinal))
			r.Eventually("the pod runs", func() string {
				if r.Set("web").Status.ReadyReplicas == 0 {
					return "no pod is ready"
				}
				return ""
			})
			r.stop.release(r.World)
			record := r.Finish(drive, "web")
			expectPhase(t, record, api.Succeeded)
			if m := record.Member(ordinal); m.Attempt < 2 {
				t.Errorf("the stale copy was used: %+v", m)
			}
			r.expectGivenBack(t, drive)
		})
	}
}

// TestRepeatedlyRemovedHoldEndsResize: the members are not stopped again and again.
func TestRepeatedlyRemovedHoldEndsResize(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(&kit.Saboteur{OnWrite: func(string) {
		if record := w.Status("web"); record != nil && len(record.Members) == 1 && record.Members[0].Phase == api.MemberFinalPass {
			w.ReleasePod("web-0")
		}
	}})
	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Failed)
	if record.Reason != api.StartedByOthers || !mentions(record.Message, " 4 ") {
		t.Error(describe(record))
	}
	expectSize(t, w, "64Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestOldManifestOfGitOpsChangesNothing: the API server rejects it from the first stop on, because templates cannot be
// changed. Before that it is harmless.
func TestOldManifestOfGitOpsChangesNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	old := manifestFile(t, 2)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	applied := 0
	drive := w.Drive(nil)
	w.Eventually("the operation ends", func() string {
		if out, err := kubectl(t, w, "apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "-f", old); err == nil {
			applied++
		} else {
			t.Logf("refused: %s", out)
		}
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if record := w.Status("web"); record == nil || !record.Phase.Terminal() {
			return describe(record)
		}
		return ""
	})
	expectPhase(t, w.Status("web"), api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	if applied == 0 {
		t.Error("the manifest was never applied")
	}
}

// TestMakerOfAutoscalerIsPaused: the maker of an autoscaler could scale the set from zero. It is paused, or nothing is
// touched.
// Invariants: I4.
func TestMakerOfAutoscalerIsPaused(t *testing.T) {
	t.Parallel()
	t.Run("KEDA", func(t *testing.T) {
		t.Parallel()
		w, row := kit.NewWorld(t), rowOf(t, "keda.sh", "ScaledObject")
		w.GrantPause(row.Operator)
		w.DefineKind(row, "ScaledObject")
		maker := w.CreateCustom(row, "ScaledObject", "main", map[string]any{}, nil)
		before, stopped := content(maker), 0
		w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
		autoscale(t, w, 1, maker)
		w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
		drive := w.Drive(nil)
		drive.OnEvent = func(e event.Event) {
			if e.Type() == events.BackupCompleted {
				stopped++
				if now := w.Custom(row, "ScaledObject", "main"); !row.Paused(now) {
					t.Errorf("it is not paused: %v", now.Object)
				}
			}
		}
		expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
		if stopped == 0 {
			t.Errorf("it was checked %d times", stopped)
		}
		expectResumed(t, w, drive, row, "ScaledObject", before)
		expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	})
	t.Run("a client that Drydock does not know", func(t *testing.T) {
		t.Parallel()
		w := kit.NewWorld(t)
		w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
		maker := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		made, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(context.Background(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "maker"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		maker.SetName(made.Name)
		maker.SetUID(made.UID)
		autoscale(t, w, 1, maker)
		w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
		status := w.Finish(w.Drive(nil), "web")
		expectPhase(t, status, api.Failed)
		if status.Reason != api.OwnerNotPausable || status.FailedAt != api.Planned || wasStopped(status) {
			t.Errorf("at %s, stopped %v: %s", status.FailedAt, wasStopped(status), describe(status))
		}
		expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	})
}
