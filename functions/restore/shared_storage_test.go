package restore

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestI9WindowOfAFolderThatIsInUse: a provisioner whose path pattern names the claim gives a new claim of the name the folder that the old
// volume has. The end of the window must not take that away.
func TestI9WindowOfAFolderThatIsInUse(t *testing.T) {
	folder := build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/shop/data-web-0"}}
	})
	old := build.With(retired(web0, "2026-03-01T11:59:59Z"), folder)
	claim := build.Claim(web0, "64Mi")
	inUse := build.Volume("pv-again", claim, folder)
	in := world(set(build.Operation(api.Succeeded)), objects{claim, old, inUse})
	p := Decide(in).String()
	if !strings.Contains(p, "patch persistentvolumes pv-data-web-0") || strings.Contains(p, "reclaim Delete") || !strings.Contains(p, "stays as it is") {
		t.Error(p)
	}
	inUse.Status.Phase = corev1.VolumeReleased
	if p := Decide(in).String(); !strings.Contains(p, "reclaim Delete") {
		t.Errorf("nobody uses the folder: %s", p)
	}
}
