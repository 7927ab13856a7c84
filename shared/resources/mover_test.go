package resources

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMoverPodEqualsPodOfJobController(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "copy"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec:       corev1.PodSpec{NodeName: "n"}}}}
	pod := MakeMoverPod(job)
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "Job" || owner.Name != "copy" || owner.UID == "" {
		t.Errorf("controlled by %+v", owner)
	}
	for key, want := range map[string]string{"a": "b", "job-name": "copy", batchv1.JobNameLabel: "copy"} {
		if pod.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, pod.Labels[key], want)
		}
	}
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) || pod.Namespace != "shop" || pod.Annotations["c"] != "d" ||
		pod.Spec.NodeName != "n" {
		t.Errorf("the pod is %+v", pod)
	}
	if len(job.Spec.Template.Labels) != 1 {
		t.Errorf("the Job's template was changed: %v", job.Spec.Template.Labels)
	}
}
