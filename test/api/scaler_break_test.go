//go:build cluster

package api

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// TestUnreadableScalerDoesNotHideOthers: the API server accepts times that Go cannot parse, and all Scalers are read as
// one list.
func TestUnreadableScalerDoesNotHideOthers(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	if err := s.create("other", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.patch("other", map[string]any{"status": map[string]any{"replicas": 1, "lastTransitionTime": "2020-01-01t00:00:00z"}}, "status")
	if err := s.drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.scale(2)
	s.untilStage(v1alpha1.StageIdle, 2)
}

// TestTenantCannotForgeHook: a successful Job with the name of a hook would let members be removed.
func TestTenantCannotForgeHook(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	_, client := tenant(t, w)
	set := w.CreateSet(kit.WorldSet("web", 1, "1Gi", "data"))
	link := api.Link{Operation: "0123456789ab", Role: api.RoleScaleHook, Namespace: w.Namespace, Set: api.SetRef{Name: "web", UID: set.UID}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: api.ScaleHookName(link.Operation, "pre"),
		Labels:      map[string]string{api.OperationLabel: link.Operation},
		Annotations: map[string]string{api.OperationAnnotation: link.Encode()}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "hook", Image: "forged"}}}}}}
	jobs := client.BatchV1().Jobs(w.Namespace)
	_, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
	expectForbidden(t, "a hook", linksPolicy, err)
	job.Labels, job.Annotations = nil, nil
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Errorf("a Job of the tenant's own: %v", err)
	}
}
