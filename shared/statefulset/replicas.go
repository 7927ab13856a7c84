package statefulset

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// CleanupAsked reports whether the set has a cleanup pod template, and claims to clean up.
func CleanupAsked(set *appsv1.StatefulSet) bool {
	asked := set.Annotations[api.CleanupTemplateAnnotation] != "" || set.Annotations[api.OlderCleanupTemplateAnnotation] != ""
	return asked && len(set.Spec.VolumeClaimTemplates) > 0
}

// ReplicasManager returns the field manager that last wrote the set's replicas, for example "kubectl" or an operator's name, or "".
func ReplicasManager(set *appsv1.StatefulSet) string {
	manager, _ := ReplicasWriter(set)
	return manager
}

// ReplicasWriter returns the field manager that last wrote the set's replicas, and when. Both are empty if managedFields does not say.
func ReplicasWriter(set *appsv1.StatefulSet) (manager string, at time.Time) {
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
	return manager, at
}

// AppliedBy returns the field manager that applies an annotation of the set from a manifest, by server-side apply or kubectl apply, or "".
func AppliedBy(set *appsv1.StatefulSet, key string) string {
	for _, entry := range set.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]struct{} `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		applies := entry.Operation == metav1.ManagedFieldsOperationApply || entry.Manager == "kubectl-client-side-apply"
		if !applies || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil {
			continue
		}
		if _, applied := fields.Metadata.Annotations["f:"+key]; applied {
			return entry.Manager
		}
	}
	return ""
}

// SpecObserved reports whether the StatefulSet controller has observed the set's latest spec.
func SpecObserved(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation
}
