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

// provisioned is a volume with policy Retain that a provisioner made at that time.
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

func TestVolumes(t *testing.T) {
	link := api.Link{Operation: "op", Role: api.RoleSource, Set: api.SetRef{Name: "web"}}
	found := map[string]string{api.ReclaimPolicyAnnotation: "Delete", api.RetainedUntilAnnotation: "2026-01-01T00:00:00Z"}
	for name, row := range map[string]struct {
		patch *plan.Patch
		want  []string
	}{
		"hold one that would be deleted": {world.HoldVolume(volume("Delete", nil), link),
			[]string{"+label operation", "+operation", "+reclaim-policy", "reclaim Retain"}},
		"hold one that is retained": {world.HoldVolume(volume("Retain", nil), link), []string{"+label operation", "+operation", "+reclaim-policy"}},
		"hold one in its window: the policy found first counts": {world.HoldVolume(volume("Retain", found), link),
			[]string{"+label operation", "+operation", "-retained-until"}},
		"release": {world.ReleaseVolume(volume("Retain", found)),
			[]string{"-reclaim-policy", "-retained-until", "reclaim Delete"}},
		"release one whose policy was Retain": {world.ReleaseVolume(volume("Retain",
			map[string]string{api.ReclaimPolicyAnnotation: "Retain"})), []string{"-reclaim-policy"}},
		"I7: release one that is free":                              {world.ReleaseVolume(volume("Retain", nil)), nil},
		"discard, whatever was found":                               {world.DiscardVolume(provisioned(map[string]string{api.ReclaimPolicyAnnotation: "Retain"}), began), []string{"-reclaim-policy", "reclaim Delete"}},
		"discard one that was not provisioned: it keeps its policy": {world.DiscardVolume(volume("Retain", nil), time.Time{}), nil},
		"discard one that was held and was not provisioned": {world.DiscardVolume(volume("Retain",
			map[string]string{api.ReclaimPolicyAnnotation: "Recycle"}), time.Time{}), []string{"-reclaim-policy", "reclaim Recycle"}},
		"discard one that was provisioned before: it keeps its policy": {world.DiscardVolume(provisioned(nil), began.Add(time.Second)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, words(row.patch)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
