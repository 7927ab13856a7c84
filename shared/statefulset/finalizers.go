package statefulset

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// knownFinalizers are finalizers that Kubernetes or Drydock removes by itself once the object is deleted: claim protection (kubernetes
// pkg/volume/util, PVCProtectionFinalizer), the two of the garbage collector (apimachinery meta/v1), and Drydock's own.
var knownFinalizers = []string{"kubernetes.io/pvc-protection", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents,
	api.SwitchFinalizer, api.CleanupFinalizer, api.HoldFinalizer}

// finalizerHints say what usually sets a finalizer, and what to do about it.
var finalizerHints = map[string]string{
	"snapshot.storage.kubernetes.io/pvc-as-source-protection": "the snapshot controller keeps it " +
		"while a VolumeSnapshot of the claim is not ready to use. Wait for the snapshot, or delete a failed one: kubectl get volumesnapshot",
	"provisioner.storage.kubernetes.io/cloning-protection": "the provisioner keeps it while the claim is cloned. " +
		"Wait for the clone, or delete the claim that waits for it: kubectl get pvc",
}

// ForeignFinalizers returns the finalizers of other controllers than Kubernetes' and Drydock's. With one of them a deleted object stays
// Terminating until its controller removes it.
func ForeignFinalizers(object metav1.Object) []string {
	return slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return slices.Contains(knownFinalizers, name) })
}

// FinalizerHint says of a foreign finalizer what usually sets it, and what to do about it.
func FinalizerHint(name string) string {
	if hint, known := finalizerHints[name]; known {
		return hint
	}
	return "another controller keeps it. Find out which one and let it finish, or remove the finalizer if that controller is gone"
}

// HeldByOthers says which foreign finalizer would keep the object when it is deleted, and what to do about it; empty if none would.
// The kind names the object for people.
func HeldByOthers(kind string, object metav1.Object) string {
	foreign := ForeignFinalizers(object)
	if len(foreign) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s has the finalizer %s: %s", kind, object.GetName(), foreign[0], FinalizerHint(foreign[0]))
}
