//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// finishedPodOn leaves a pod that has used the claim and has ended, as a CronJob's history does.
func finishedPodOn(t *testing.T, w *kit.World, claim string) {
	t.Helper()
	w.CreatePodOn("backup-28999", claim)
	w.Eventually("the pod has ended", func() string {
		_, _ = w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), "backup-28999", types.MergePatchType,
			[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), "backup-28999", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodSucceeded || pod.Spec.NodeName == "" {
			return "not yet"
		}
		return ""
	})
}

// TestFinishedPodOnClaimOfSetAtZero: a swap cannot know when the pod ended. So no member is stopped before the pod is deleted.
func TestFinishedPodOnClaimOfSetAtZero(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	finishedPodOn(t, w, "data-web-0")
	w.Scale("web", 0)
	w.Eventually("the set is at zero", func() string {
		if w.Set("web").Status.Replicas != 0 {
			return "it is not"
		}
		return ""
	})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the record names the pod", func() string {
		ticks(t, drive, 1)
		if s := w.Status("web"); s == nil || s.Reason != api.GateClosed || !strings.Contains(s.Message, "delete that pod") {
			return describe(s)
		}
		return ""
	})
	must(t, w.Kube.CoreV1().Pods(w.Namespace).Delete(t.Context(), "backup-28999", metav1.DeleteOptions{}))
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if stops := status.Members[0].Stops; stops != 1 {
		t.Errorf("the member was stopped %d times", stops)
	}
}
