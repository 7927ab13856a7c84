package soak

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// A kubelet that is restarted after it has unmounted a volume from its last pod, and before it has unstaged the volume, forgets it: a new
// kubelet looks for volumes only in the folders of pods (kubernetes issues 85476 and 121937). Such a volume stays mounted on the node,
// and the provisioner's attempts to delete it fail. An administrator unmounts it.

// Mount is a mounted device of the node.
type Mount struct{ Device, Folder string }

// StagedWithoutPods returns the staged volumes that no pod uses. mounts is the content of /proc/self/mountinfo.
func StagedWithoutPods(mounts string) []Mount {
	var all []Mount
	for line := range strings.Lines(mounts) {
		// The fields are: id, parent, major:minor, root, mount point, options and tags, "-", type, source, options.
		fields := strings.Fields(line)
		if end := slices.Index(fields, "-"); end > 4 && len(fields) > end+2 {
			all = append(all, Mount{Device: fields[end+2], Folder: fields[4]})
		}
	}
	uses := map[string]int{}
	for _, m := range all {
		uses[m.Device]++
	}
	return slices.DeleteFunc(all, func(m Mount) bool { return uses[m.Device] > 1 || !isStaged(m.Folder) })
}

// isStaged reports whether the kubelet stages a CSI volume in the folder (kubernetes pkg/volume/csi/csi_attacher.go).
func isStaged(folder string) bool {
	return path.Base(folder) == "globalmount" && strings.Contains(folder, "/plugins/kubernetes.io/csi/")
}

// WaitsForDeletion reports whether only the provisioner has still to delete the volume: Drydock has no use for it any more.
func WaitsForDeletion(v *corev1.PersistentVolume) bool {
	for key := range v.Annotations {
		if strings.HasPrefix(key, api.Prefix) {
			return false
		}
	}
	return v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		v.Labels[api.OperationLabel] == ""
}
