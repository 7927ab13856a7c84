package statefulset

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// SameStorage reports whether both volumes are the same storage. A provisioner with a path pattern may create two volumes for one folder.
// The deletion of one of them then deletes the data of both.
func SameStorage(a, b *corev1.PersistentVolume) bool {
	x, y := a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource
	if x == (corev1.PersistentVolumeSource{}) {
		return false
	}
	if equality.Semantic.DeepEqual(x, y) {
		return true
	}
	return x.CSI != nil && y.CSI != nil && x.CSI.Driver == y.CSI.Driver && (x.CSI.VolumeHandle == y.CSI.VolumeHandle ||
		sameFolder(x.CSI, y.CSI))
}

// sameFolder compares the attributes that the drivers for NFS and SMB set. Their handles differ, because these contain the volume's name
// (csi-driver-nfs and csi-driver-smb, pkg/nfs and pkg/smb, controllerserver.go).
func sameFolder(a, b *corev1.CSIPersistentVolumeSource) bool {
	x, y := folderOf(a), folderOf(b)
	return x["subdir"] != "" && equality.Semantic.DeepEqual(x, y)
}

func folderOf(source *corev1.CSIPersistentVolumeSource) map[string]string {
	folder := map[string]string{}
	for key, value := range source.VolumeAttributes {
		switch key := strings.ToLower(key); key {
		case "server", "share", "source", "subdir":
			folder[key] = value
		}
	}
	return folder
}

// LeastSize returns the smallest size, in whole MiB, that leaves the margin in percent of it free beside the used bytes. A volume must be
// larger, because its file system needs some space, too.
func LeastSize(used int64, margin int) *resource.Quantity {
	const mebi = 1 << 20
	share := float64(100-min(margin, 99)) / 100 // the mover accepts a margin up to 99
	return resource.NewQuantity(int64(math.Ceil(float64(used)/share/mebi))*mebi, resource.BinarySI)
}
