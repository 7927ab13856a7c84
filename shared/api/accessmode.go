package api

import corev1 "k8s.io/api/core/v1"

// accessModes maps the short names that kubectl prints.
var accessModes = map[string]corev1.PersistentVolumeAccessMode{
	"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
}

// ShortMode returns the short name of the access mode.
func ShortMode(mode corev1.PersistentVolumeAccessMode) string {
	for short, known := range accessModes {
		if known == mode {
			return short
		}
	}
	return string(mode)
}
