//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// archive creates a volume of an administrator, with data.
func archive(t *testing.T, w *kit.World, class string, ref *corev1.ObjectReference) *corev1.PersistentVolume {
	t.Helper()
	volume, err := w.Kube.CoreV1().PersistentVolumes().Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "archive-" + w.Namespace},
		Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: *kit.Quantity("1Gi")},
			StorageClassName: class,
			AccessModes: []corev1.PersistentVolumeAccessMode{
				corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas.example.com",
				Path: "/archive"}}, ClaimRef: ref},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Kube.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{})
	})
	return volume
}

func createClass(t *testing.T, w *kit.World, name, provisioner string, mode storagev1.VolumeBindingMode) {
	t.Helper()
	classes := w.Kube.StorageV1().StorageClasses()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(mode)}
	if _, err := classes.Create(context.Background(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// TestVolumeOfAdministratorIsNeverTargetOfCopy: the mover would wipe it, and an abort would delete it.
func TestVolumeOfAdministratorIsNeverTargetOfCopy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		mode     storagev1.VolumeBindingMode
		reserved bool // for the temporary claim
	}{
		"bound at once":                    {storagev1.VolumeBindingImmediate, false},
		"bound with the first consumer":    {storagev1.VolumeBindingWaitForFirstConsumer, false},
		"reserved for the temporary claim": {storagev1.VolumeBindingWaitForFirstConsumer, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			class, request := "class-"+w.Namespace, "data=128Mi@class-"+w.Namespace
			createClass(t, w, class, "kit.example.com", row.mode)
			var ref *corev1.ObjectReference
			if row.reserved {
				ref = &corev1.ObjectReference{Namespace: w.Namespace,
					Name: api.TargetName(api.OperationID(set.UID, request, 1), "data-web-0", 0)}
			}
			volume := archive(t, w, class, ref)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: request})
			status := w.Finish(w.Drive(nil), "web")
			expectPhase(t, status, api.Failed)
			if status.Reason != api.NotProvisioned || !strings.Contains(status.Message, volume.Name) || wasStopped(status) {
				t.Errorf("%s, stopped %v: %s", status.Reason, wasStopped(status), status.Message)
			}
			expectEvents(t, w, "web", "Warning NotProvisioned")
			expectUntouched(t, w, volume)
		})
	}
}

// expectUntouched checks that the volume exists without any annotation of Drydock.
func expectUntouched(t *testing.T, w *kit.World, volume *corev1.PersistentVolume) {
	t.Helper()
	if broken := w.ClaimProblems("data-web-0"); len(broken) > 0 {
		t.Error(broken)
	}
	is, err := w.Kube.CoreV1().PersistentVolumes().Get(context.Background(), volume.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if is.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || is.DeletionTimestamp != nil {
		t.Errorf("volume %s has policy %s, deleted %v", is.Name, is.Spec.PersistentVolumeReclaimPolicy, is.DeletionTimestamp)
	}
	for key := range is.Annotations {
		if strings.HasPrefix(key, api.Prefix) {
			t.Errorf("volume %s has annotation %s", is.Name, key)
		}
	}
}
