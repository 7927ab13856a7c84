package resources

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// unknownJobUID stands for the UID of a Job that does not exist yet, because an owner reference needs a UID.
const unknownJobUID types.UID = "00000000-0000-0000-0000-000000000000"

// MakeMoverPod returns the pod that the Job controller would create for a Job that does not exist yet (kubernetes pkg/controller/job). It
// serves a dry run on the API server. It has the Job as its controller and the labels of the Job controller, because policies check both.
func MakeMoverPod(job *batchv1.Job) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = job.Namespace, job.Name
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		pod.Labels[key] = job.Name
	}
	for _, key := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		pod.Labels[key] = string(unknownJobUID)
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: unknownJobUID,
		Controller: ptr.To(true)}}
	return pod
}
