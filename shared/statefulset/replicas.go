package statefulset

import (
	"encoding/json"
	"slices"
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

// handManagers are the field managers of commands that change a field once: kubectl's, and Drydock's plugin. Any other client may have a
// manifest, and write the same text again. Helm and Argo CD do so with the operation Update. The names of managers are free text, so no
// list of such clients is complete.
var handManagers = []string{"kubectl-annotate", "kubectl-edit", "kubectl-patch", api.FieldManager}

// lastAppliedAnnotation has the manifest that a client-side apply has sent, also one of Argo CD.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// ManifestText returns the text of an annotation in a manifest of the set that may be applied again, and what shows that manifest: a field
// manager, or the annotation of kubectl apply. Both are empty if people or an admission policy wrote the annotation.
func ManifestText(set *appsv1.StatefulSet, key string) (text, source string) {
	for _, entry := range set.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]struct{} `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		byHand := entry.Operation == metav1.ManagedFieldsOperationUpdate && slices.Contains(handManagers, entry.Manager)
		if byHand || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil {
			continue
		}
		if _, wrote := fields.Metadata.Annotations["f:"+key]; wrote {
			return set.Annotations[key], entry.Manager
		}
	}
	var manifest metav1.PartialObjectMetadata
	if json.Unmarshal([]byte(set.Annotations[lastAppliedAnnotation]), &manifest) == nil && manifest.Annotations[key] != "" {
		return manifest.Annotations[key], lastAppliedAnnotation
	}
	return "", ""
}

// SpecObserved reports whether the StatefulSet controller has observed the set's latest spec.
func SpecObserved(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation
}
