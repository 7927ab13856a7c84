package statefulset

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

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
