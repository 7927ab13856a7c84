//go:build cluster

package sim

import appsv1 "k8s.io/api/apps/v1"

type setType = *appsv1.StatefulSet

// retention returns a policy that deletes the claims of removed ordinals, so that a scale to zero would delete the
// data.
func retention() *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	return &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
}
