//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

const (
	withFinalizer = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection","example.com/keep"]}}`
	withoutIt     = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection"]}}`
)

// limitMemory limits the memory of each container in the namespace.
func limitMemory(w *kit.World, most string) {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "memory"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(most)}}}}}
	if _, err := w.Kube.CoreV1().LimitRanges(w.Namespace).Create(context.Background(), limits, metav1.CreateOptions{}); err != nil {
		w.T.Fatal(err)
	}
	untilPodIsRefused(w)
}

// untilPodIsRefused waits until the rules of the namespace are in force: then they deny a pod with 1Gi of memory as any
// user.
func untilPodIsRefused(w *kit.World) {
	w.Eventually("the rules are in force", func() string {
		_, err := w.Kube.CoreV1().Pods(w.Namespace).Create(context.Background(), podOf1Gi(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

func podOf1Gi() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "trial"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "dev.local/busybox:1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}}}}
}

// TestDetectResizeCreatesPodsOnlyInDryRuns: its right to create pods has no other use.
func TestDetectResizeCreatesPodsOnlyInDryRuns(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallPolicies()
	pods := asUser(w, "system:serviceaccount:drydock:detect-resize").Kube.CoreV1().Pods(w.Namespace)
	w.Eventually("the policy is in force", func() string {
		if _, err := pods.Create(t.Context(), podOf1Gi(), metav1.CreateOptions{}); !deniedBy(err, "drydock-dry-run-pods") {
			_ = w.Kube.CoreV1().Pods(w.Namespace).Delete(t.Context(), "trial", metav1.DeleteOptions{})
			return fmt.Sprint(err)
		}
		return ""
	})
	if _, err := pods.Create(t.Context(), podOf1Gi(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := w.Kube.CoreV1().Pods(w.Namespace).Create(t.Context(), podOf1Gi(), metav1.CreateOptions{}); err != nil {
		t.Errorf("by another user: %v", err)
	}
}

// untilHeld ticks until the operation waits for the finalizer.
func untilHeld(t *testing.T, w *kit.World, drive *kit.Drive, what string) {
	t.Helper()
	w.Eventually(what, func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || !strings.Contains(status.Message, "example.com/keep") {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
}

// TestFinalizerDuringFirstPassKeepsSetRunning: a finalizer that appears after the preflight is found before a member
// stops.
func TestFinalizerDuringFirstPassKeepsSetRunning(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the first copy runs", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || len(status.Members) == 0 || status.Members[0].Phase != api.MemberCopying {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	w.PatchClaim("data-web-0", withFinalizer)
	holdFirstPass(w, false)
	untilHeld(t, w, drive, "the operation waits for the finalizer")
	for range 3 {
		_ = drive.Tick(context.Background())
	}
	if status := w.Status("web"); wasStopped(status) {
		t.Errorf("the pod was stopped: %s", describe(status))
	}
	expectEvents(t, w, "web", "Warning "+string(api.ForeignFinalizer))

	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestFinalizerBeforeSwapKeepsClaim: a deletion cannot be reverted, so it does not begin.
func TestFinalizerBeforeSwapKeepsClaim(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	uid := w.Claim("data-web-0").UID
	came := false
	drive.OnEvent = func(e event.Event) {
		if e.Type() == events.BackupCompleted && !came {
			came = true
			w.PatchClaim("data-web-0", withFinalizer)
		}
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the copies are verified", func() string {
		_ = drive.Tick(context.Background())
		if !came {
			return fmt.Sprintf("status %+v", w.Status("web"))
		}
		return ""
	})
	_ = drive.Tick(context.Background()) // it tries again for eight seconds
	if claim := w.Claim("data-web-0"); claim.DeletionTimestamp != nil || claim.UID != uid || len(claim.Finalizers) != 2 {
		t.Errorf("the claim was touched: deleted %v, finalizers %v", claim.DeletionTimestamp, claim.Finalizers)
	}
	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}
