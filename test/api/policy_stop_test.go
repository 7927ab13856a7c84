//go:build cluster

package api

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestRetentionPolicyRestoredByToolWhilePodsEnd: a deployment tool that ignores replicas restores whenScaled while the
// pods of the set end. The StatefulSet controller would delete their claims with them.
// Invariants: I1.
func TestRetentionPolicyRestoredByToolWhilePodsEnd(t *testing.T) {
	w := kit.NewWorld(t)
	w.InstallPolicies()
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	set.Spec.Template.Finalizers = []string{"example.com/ends-slowly"}
	w.CreateSet(set)
	before, drive := w.Claim("data-web-0").UID, w.Drive(nil)
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	pods := w.Kube.CoreV1().Pods(w.Namespace)
	w.Eventually("the pod is ending", func() string {
		_ = drive.Tick(context.Background())
		if pod, err := pods.Get(context.Background(), "web-0", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil {
			return "it is not"
		}
		return ""
	})
	again := []byte(`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
	sets := w.Kube.AppsV1().StatefulSets(w.Namespace)
	if _, err := sets.Patch(context.Background(), "web", types.MergePatchType, again, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("whenScaled Delete while pods end: %v", err)
		w.Eventually("the controller has seen it", func() string {
			if s := w.Set("web"); s.Status.ObservedGeneration < s.Generation {
				return "it has not"
			}
			return ""
		})
	}
	if _, err := pods.Patch(context.Background(), "web-0", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the set sleeps", func() string {
		_ = drive.Tick(context.Background())
		if sleep, err := api.LoadSleep(w.Set("web")); err != nil || sleep == nil || sleep.Phase != api.Asleep {
			return "it does not"
		}
		return ""
	})
	if claim := w.Claim("data-web-0"); claim == nil || claim.UID != before || claim.DeletionTimestamp != nil ||
		len(claim.OwnerReferences) > 0 {
		t.Errorf("I1: the claim of the sleeping set is %v", claim)
	}
	if _, err := sets.Patch(context.Background(), "web", types.MergePatchType, again, metav1.PatchOptions{}); err != nil {
		t.Errorf("when all pods have ended it costs nothing: %v", err)
	}
}
