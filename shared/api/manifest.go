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

// ParseManifest returns the object in the JSON text with all its fields, also fields that this build does not know.
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

// SetManifest returns the StatefulSet in RecreateAnnotation with all its fields, or nil. LoadManifest reads the same text and checks it.
func SetManifest(revision *appsv1.ControllerRevision) (*unstructured.Unstructured, error) {
	if set, err := LoadManifest(revision); set == nil || err != nil {
		return nil, err
	}
	return ParseManifest([]byte(revision.Annotations[RecreateAnnotation]), "apps/v1", "StatefulSet")
}

// ClaimManifest returns the claim in ClaimManifestAnnotation with all its fields, or nil. LoadClaim reads the same text and checks it.
func ClaimManifest(volume *corev1.PersistentVolume) (*unstructured.Unstructured, error) {
	if claim, err := LoadClaim(volume); claim == nil || err != nil {
		return nil, err
	}
	return ParseManifest([]byte(volume.Annotations[ClaimManifestAnnotation]), "v1", "PersistentVolumeClaim")
}

// SetMetadata has the metadata of a StatefulSet that a creation cannot carry. The API server replaces managedFields by its own, and refuses
// blockOwnerDeletion from an account without rights on the owner.
type SetMetadata struct {
	// ManagedFields are the managedFields of the deleted set.
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	// BlockingOwners are the UIDs of the owners with blockOwnerDeletion.
	BlockingOwners []types.UID `json:"blockingOwners,omitempty"`
}

// SetMetadataOf returns the metadata to write on the set after it is created again.
func SetMetadataOf(set *appsv1.StatefulSet) SetMetadata {
	m := SetMetadata{ManagedFields: set.ManagedFields}
	for _, owner := range set.OwnerReferences {
		if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
			m.BlockingOwners = append(m.BlockingOwners, owner.UID)
		}
	}
	return m
}

// Encode returns the value of SetMetadataAnnotation.
func (m SetMetadata) Encode() string { return mustJSON(m) }

// LoadSetMetadata returns the SetMetadata of the journal. It is empty without the annotation.
func LoadSetMetadata(revision *appsv1.ControllerRevision) (SetMetadata, error) {
	var m SetMetadata
	text, ok := revision.Annotations[SetMetadataAnnotation]
	if !ok {
		return m, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return SetMetadata{}, fmt.Errorf("reading annotation %s of journal %s/%s: %w",
			SetMetadataAnnotation, revision.Namespace, revision.Name, err)
	}
	return m, nil
}

// MaxSet is the length of the longest StatefulSet that Drydock works with, in bytes of JSON. Decoded, a set takes up to fifty times its
// length, because a short entry of a list is a large struct. All annotations of a set can have 256 KiB, and its pod template has a few.
const MaxSet = 512 << 10
