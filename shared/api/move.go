package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Move is a claim that gets another volume, or that grows while its member is stopped.
type Move struct {
	Claim    string            `json:"claim"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Class is the target's StorageClass if it differs from the source's.
	Class string `json:"class,omitempty"`
	// Modes are the target's access modes if they differ from the source's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is the target's VolumeAttributesClass if it differs from the source's.
	Attributes *string `json:"attributes,omitempty"`
	// OldVolume and NewVolume are the PersistentVolumes before and after. In a rollback, NewVolume is the restored old volume.
	OldVolume string `json:"oldVolume"`
	NewVolume string `json:"newVolume,omitempty"`
	// InPlace is true if the claim keeps OldVolume, which grows while the member is stopped. There is no NewVolume then.
	InPlace bool `json:"inPlace,omitempty"`
	// Moved is true when the claim is bound to its new volume, or its volume has grown.
	Moved bool `json:"moved,omitempty"`
	// Copies counts the finished copies that became stale because the member started again. Each copy has its own volume.
	Copies int `json:"copies,omitempty"`
	// BytesDone and BytesTotal count the data bytes of regular files: of the whole copy, not of one pass. BytesTrusted were verified in
	// first passes and are unchanged since. BytesFinal were written in the final pass.
	BytesDone    int64 `json:"bytesDone,omitempty"`
	BytesTotal   int64 `json:"bytesTotal,omitempty"`
	BytesTrusted int64 `json:"bytesTrusted,omitempty"`
	BytesFinal   int64 `json:"bytesFinal,omitempty"`
	Files        int64 `json:"files,omitempty"`
	// Digest is the SHA-256 of the verified tree, as the mover defines it. It is empty until the copy is verified in the present hold.
	Digest string `json:"digest,omitempty"`
	// Warnings are sentences from the movers of the claim. Each is a Kubernetes Event, too.
	Warnings []string `json:"warnings,omitempty"`
}

// Target returns the requested size, class, modes and attributes of the claim.
func (m *Move) Target() Target {
	return Target{Size: m.To, Class: m.Class, Modes: m.Modes, Attributes: m.Attributes}
}

// Volume returns the volume that the claim has after the operation.
func (m *Move) Volume() string {
	if m.InPlace {
		return m.OldVolume
	}
	return m.NewVolume
}

// DiscardCopy discards the copy, so that the claim is copied to another volume.
func (m *Move) DiscardCopy() {
	m.Copies++
	m.NewVolume = ""
	m.ForgetProgress()
}

// ForgetProgress resets the counters of the copy, because it has a new target.
func (m *Move) ForgetProgress() {
	m.BytesDone, m.BytesTotal, m.BytesTrusted, m.BytesFinal, m.Files = 0, 0, 0, 0, 0
}
