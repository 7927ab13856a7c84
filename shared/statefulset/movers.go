package statefulset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// IsTarget reports whether the claim is a temporary claim of the operation.
func IsTarget(claim *corev1.PersistentVolumeClaim, operation string) bool {
	link, err := api.LoadLink(claim)
	return err == nil && link != nil && link.Operation == operation && link.Role == api.RoleTarget &&
		api.IsTargetName(operation, link.Claim, claim.Name)
}

// IsOfMover reports whether the object belongs to the operation and has the name of a mover's Job.
func IsOfMover(object metav1.Object, name, operation string) bool {
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Operation == operation && link.Role == api.RoleMover && link.Member != nil &&
		api.IsMoverName(operation, *link.Member, name)
}

// IsMoverOf reports whether a copy Job of the operation controls the pod.
func IsMoverOf(pod *corev1.Pod, operation string) bool {
	return pod.Labels[api.OperationLabel] == operation && IsMover(pod)
}

// IsMover reports whether a copy Job of Drydock controls the pod.
func IsMover(pod *corev1.Pod) bool {
	job := metav1.GetControllerOf(pod)
	return job != nil && job.Kind == "Job" && IsOfMover(pod, job.Name, pod.Labels[api.OperationLabel])
}

// OnePodOnly reports whether only one pod may use the claim.
func OnePodOnly(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// Bound reports whether claim and volume are bound to each other. A reference in one direction is not enough.
func Bound(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	return claim.Spec.VolumeName == volume.Name && ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name &&
		ref.UID == claim.UID
}
