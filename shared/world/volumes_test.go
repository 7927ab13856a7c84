package world_test

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

func volume(policy corev1.PersistentVolumeReclaimPolicy, annotations map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", ResourceVersion: "7", Annotations: annotations},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy}}
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// provisioned returns a volume with policy Retain that a provisioner created at the time began.
func provisioned(annotations map[string]string) *corev1.PersistentVolume {
	v := volume("Retain", map[string]string{"pv.kubernetes.io/provisioned-by": "csi.example.com"})
	maps.Copy(v.Annotations, annotations)
	v.CreationTimestamp = metav1.NewTime(began)
	return v
}

func words(p *plan.Patch) []string {
	if actions := p.Actions(); len(actions) > 0 {
		return actions[0].Words
	}
	return nil
}

// TestVolumePatches: each patch has only the changes that the volume lacks.
// Invariants: I7.
func TestVolumePatches(t *testing.T) {
	link := api.Link{Operation: "op", Role: api.RoleSource, Set: api.SetRef{Name: "web"}}
	found := map[string]string{api.ReclaimPolicyAnnotation: "Delete", api.RetainedUntilAnnotation: "2026-01-01T00:00:00Z"}
	for name, row := range map[string]struct {
		patch *plan.Patch
		want  []string
	}{
		"hold a volume that would be deleted": {world.HoldVolume(volume("Delete", nil), link),
			[]string{"+label operation", "+operation", "+reclaim-policy", "reclaim Retain"}},
		"hold a volume that is retained": {world.HoldVolume(volume("Retain", nil), link),
			[]string{"+label operation", "+operation", "+reclaim-policy"}},
		"hold an old volume: the policy stored first stays": {world.HoldVolume(volume("Retain", found), link),
			[]string{"+label operation", "+operation", "-retained-until"}},
		"release": {world.ReleaseVolume(volume("Retain", found)),
			[]string{"-reclaim-policy", "-retained-until", "reclaim Delete"}},
		"release a volume with the former policy Retain": {world.ReleaseVolume(volume("Retain",
			map[string]string{api.ReclaimPolicyAnnotation: "Retain"})), []string{"-reclaim-policy"}},
		"release a volume that is not held": {world.ReleaseVolume(volume("Retain", nil)), nil},
		"discard, with any former policy": {
			world.DiscardVolume(provisioned(map[string]string{api.ReclaimPolicyAnnotation: "Retain"}), began),
			[]string{"-reclaim-policy", "reclaim Delete"}},
		"discard a volume that was not provisioned: it keeps its policy": {
			world.DiscardVolume(volume("Retain", nil), time.Time{}), nil},
		"discard a held volume that was not provisioned": {world.DiscardVolume(volume("Retain",
			map[string]string{api.ReclaimPolicyAnnotation: "Recycle"}), time.Time{}), []string{"-reclaim-policy", "reclaim Recycle"}},
		"discard a volume provisioned before: it keeps its policy": {
			world.DiscardVolume(provisioned(nil), began.Add(time.Second)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, words(row.patch)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
