package api

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// ParseManifest reads an object as JSON, with all its fields, also those that this build does not know.
func ParseManifest(text []byte, apiVersion, kind string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", kind, err)
	}
	if object.Object == nil {
		return nil, fmt.Errorf("reading a %s: it is empty", kind)
	}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return object, nil
}

// SetManifest returns the StatefulSet of RecreateAnnotation with all its fields; nil if the journal has none. LoadManifest
// reads the same text and checks it.
func SetManifest(revision *appsv1.ControllerRevision) (*unstructured.Unstructured, error) {
	if set, err := LoadManifest(revision); set == nil || err != nil {
		return nil, err
	}
	return ParseManifest([]byte(revision.Annotations[RecreateAnnotation]), "apps/v1", "StatefulSet")
}

// ClaimManifest returns the claim of ClaimManifestAnnotation with all its fields; nil if the volume has none. LoadClaim reads
// the same text and checks it.
func ClaimManifest(volume *corev1.PersistentVolume) (*unstructured.Unstructured, error) {
	if claim, err := LoadClaim(volume); claim == nil || err != nil {
		return nil, err
	}
	return ParseManifest([]byte(volume.Annotations[ClaimManifestAnnotation]), "v1", "PersistentVolumeClaim")
}

// SetMetadata is the part of a StatefulSet's metadata that a creation cannot carry: the API server replaces managedFields with
// its own, and refuses blockOwnerDeletion to an account without rights on the owner.
type SetMetadata struct {
	// ManagedFields are those of the set before it was deleted.
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	// BlockingOwners are the UIDs of the owners with blockOwnerDeletion.
	BlockingOwners []types.UID `json:"blockingOwners,omitempty"`
}

// SetMetadataOf returns what must be written on the set after it was created again.
func SetMetadataOf(set *appsv1.StatefulSet) SetMetadata {
	m := SetMetadata{ManagedFields: set.ManagedFields}
	for _, owner := range set.OwnerReferences {
		if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
			m.BlockingOwners = append(m.BlockingOwners, owner.UID)
		}
	}
	return m
}

// Encode renders the document for SetMetadataAnnotation.
func (m SetMetadata) Encode() string { return mustJSON(m) }

// LoadSetMetadata reads SetMetadataAnnotation of the journal; a journal without it yields an empty document.
func LoadSetMetadata(revision *appsv1.ControllerRevision) (SetMetadata, error) {
	var m SetMetadata
	text, ok := revision.Annotations[SetMetadataAnnotation]
	if !ok {
		return m, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return SetMetadata{}, fmt.Errorf("reading annotation %s of journal %s/%s: %w", SetMetadataAnnotation, revision.Namespace, revision.Name, err)
	}
	return m, nil
}
