//go:build cluster

package api

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// TestTenantCannotLinkObjectsWithTheirStatus: as TestTenantCannotLinkObjects, through the subresource status. The API server stores
// annotations and labels with it, too. The policy drydock-records closes the same way for StatefulSets.
func TestTenantCannotLinkObjectsWithTheirStatus(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	jobs := client.BatchV1().Jobs(w.Namespace)
	_, err := jobs.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "drydock-0123456789ab-pre-scaling"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "hook", Image: "forged"}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the pod exists", func() string {
		if _, err := client.CoreV1().Pods(w.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, key := range []string{api.OperationAnnotation, moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"},"labels":{"drydock.dev/operation":"0123456789ab"}}}`, key)
		_, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, body,
			metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a claim", linksPolicy, err)
		_, err = client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType, body, metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a pod", linksPolicy, err)
		_, err = jobs.Patch(t.Context(), "drydock-0123456789ab-pre-scaling", types.MergePatchType, body, metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a Job", linksPolicy, err)
	}
	claim, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Get(t.Context(), "data-web-0", metav1.GetOptions{})
	if err == nil && claim.Annotations[api.OperationAnnotation] != "" {
		t.Errorf("the claim has the link %q and the label %q", claim.Annotations[api.OperationAnnotation], claim.Labels[api.OperationLabel])
	}
	job, err := jobs.Get(t.Context(), "drydock-0123456789ab-pre-scaling", metav1.GetOptions{})
	if err == nil && job.Annotations[api.OperationAnnotation] != "" {
		t.Errorf("the Job has the link %q", job.Annotations[api.OperationAnnotation])
	}
}
