package statefulset

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
)

// CleanupAsked reports whether the set has a cleanup pod template, and claims to clean up.
func CleanupAsked(set *appsv1.StatefulSet) bool {
	asked := set.Annotations[api.CleanupTemplateAnnotation] != "" || set.Annotations[api.OlderCleanupTemplateAnnotation] != ""
	return asked && len(set.Spec.VolumeClaimTemplates) > 0
}

// ReplicasManager returns the field manager that last wrote the set's replicas, for example "kubectl" or an operator's name, or "" if
// managedFields does not say.
func ReplicasManager(set *appsv1.StatefulSet) string {
	manager, at := "", time.Time{}
	for _, entry := range set.ManagedFields {
		var fields struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil || fields.Spec.Replicas == nil {
			continue
		}
		if entry.Time == nil || !entry.Time.Time.Before(at) {
			manager = entry.Manager
			if entry.Time != nil {
				at = entry.Time.Time
			}
		}
	}
	return manager
}

// SpecObserved reports whether the StatefulSet controller has observed the set's latest spec.
func SpecObserved(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation
}
