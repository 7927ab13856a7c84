//go:build cluster

package api

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestRetentionPolicyRestoredByToolDuringFirstPass: a deployment tool restores whenScaled during the first pass. When
// the set stops, that would delete the claims outside the operation, with their volumes.
// Invariants: I1.
func TestRetentionPolicyRestoredByToolDuringFirstPass(t *testing.T) {
	set := kit.WorldSet("web", 1, "64Mi", "data", "logs")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	w, drive := readyWorld(t, set)
	logs := w.Claim("logs-web-0")
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	w.PatchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
	holdFirstPass(w, false)
	if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
		t.Errorf("%s: %s", status.Reason, status.Message)
	}
	if now := w.Claim("logs-web-0"); now == nil || now.UID != logs.UID {
		t.Error("I1: claim logs-web-0 was deleted with the scale to zero")
	}
	policy := w.Set("web").Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled
	if policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Errorf("whenScaled is %s, it was Delete", policy)
	}
	expectWhole(t, w, "web", 1, "data-web-0", "logs-web-0")
}
