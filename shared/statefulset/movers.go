package statefulset

import (
	"fmt"
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

// knownFinalizers are the finalizers that Kubernetes or Drydock removes automatically from a deleted object: claim protection (kubernetes
// pkg/volume/util, PVCProtectionFinalizer), two finalizers of the garbage collector (apimachinery meta/v1), and Drydock's finalizers.
var knownFinalizers = []string{"kubernetes.io/pvc-protection", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents,
	api.FreezeFinalizer, api.CleanupFinalizer, api.HoldFinalizer}

// finalizerHints maps known foreign finalizers to the controller that sets them and an advice.
var finalizerHints = map[string]string{
	"snapshot.storage.kubernetes.io/pvc-as-source-protection": "the snapshot controller keeps it " +
		"while a VolumeSnapshot of the claim is not ready to use. Wait for the snapshot, or delete a failed one: kubectl get volumesnapshot",
	"provisioner.storage.kubernetes.io/cloning-protection": "the provisioner keeps it while the claim is cloned. " +
		"Wait for the clone, or delete the claim that waits for it: kubectl get pvc",
}

// ForeignFinalizers returns the finalizers that do not belong to Kubernetes or Drydock. They keep a deleted object in Terminating until
// their controller removes them.
func ForeignFinalizers(object metav1.Object) []string {
	return slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return slices.Contains(knownFinalizers, name) })
}

// FinalizerHint returns which controller usually sets a foreign finalizer, and an advice.
func FinalizerHint(name string) string {
	if hint, known := finalizerHints[name]; known {
		return hint
	}
	return "another controller keeps it. Find out which one and let it finish, or remove the finalizer if that controller is gone"
}

// HeldByOthers returns which foreign finalizer would keep the object when it is deleted, with an advice, or "". Kind names the object in
// the message.
func HeldByOthers(kind string, object metav1.Object) string {
	foreign := ForeignFinalizers(object)
	if len(foreign) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s has the finalizer %s: %s", kind, object.GetName(), foreign[0], FinalizerHint(foreign[0]))
}
