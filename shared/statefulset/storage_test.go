package statefulset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSameStorage(t *testing.T) {
	nfs := func(path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: path}}
	}
	csi := func(driver, handle string, attributes ...string) corev1.PersistentVolumeSource {
		source := &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle, VolumeAttributes: map[string]string{}}
		for i := 0; i < len(attributes); i += 2 {
			source.VolumeAttributes[attributes[i]] = attributes[i+1]
		}
		return corev1.PersistentVolumeSource{CSI: source}
	}
	for name, row := range map[string]struct {
		a, b corev1.PersistentVolumeSource
		same bool
	}{
		"no source":              {corev1.PersistentVolumeSource{}, corev1.PersistentVolumeSource{}, false},
		"one export":             {nfs("/shop"), nfs("/shop"), true},
		"two exports":            {nfs("/shop"), nfs("/bank"), false},
		"one handle":             {csi("ebs", "vol-1"), csi("ebs", "vol-1", "storage.kubernetes.io/csiProvisionerIdentity", "x"), true},
		"handles of two drivers": {csi("ebs", "1"), csi("rbd", "1"), false},
		"disks that look alike":  {csi("disk", "1", "skuname", "Premium"), csi("disk", "2", "skuname", "Premium"), false},
		"one folder": {csi("nfs", "a#pv-1", "server", "nas", "share", "/", "subDir", "shop/data"),
			csi("nfs", "a#pv-2", "server", "nas", "share", "/", "subdir", "shop/data", "mountPermissions", "0"), true},
		"folders of two shares": {csi("nfs", "a", "server", "nas", "share", "/a", "subDir", "shop"),
			csi("nfs", "b", "server", "nas", "share", "/b", "subDir", "shop"), false},
		"whole shares": {csi("nfs", "a", "server", "nas", "share", "/a"), csi("nfs", "b", "server", "nas", "share", "/a"), false},
	} {
		a, b := &corev1.PersistentVolume{}, &corev1.PersistentVolume{}
		a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource = row.a, row.b
		if SameStorage(a, b) != row.same || SameStorage(b, a) != row.same {
			t.Errorf("%s: %t, want %t", name, !row.same, row.same)
		}
	}
}
