package restore

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// isNewVolume reports whether the volume was provisioned for the operation: it is linked to the operation and is not an old volume.
func isNewVolume(volume *corev1.PersistentVolume, operation, claim string) bool {
	old := api.HasLink(volume, operation, api.RoleReturning) || api.HasLink(volume, operation, api.RoleOldVolume) ||
		api.HasLink(volume, operation, api.RoleSource)
	return !old && linked(volume.Labels, operation) || isCopy(volume, operation, claim)
}

// isCopy reports whether the volume has, or last had, a temporary claim of the operation for this claim.
func isCopy(volume *corev1.PersistentVolume, operation, claim string) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && api.IsTargetName(operation, claim, ref.Name)
}

// isReturning reports whether an old volume is still kept for its claim. If another process has bound the volume to another claim, it may
// have been written to.
func isReturning(volume *corev1.PersistentVolume, operation string) bool {
	return api.HasLink(volume, operation, api.RoleReturning) && (volume.Status.Phase == corev1.VolumeReleased || reservedFor(volume) != "")
}

// reservedFor returns the claim name that the volume is reserved for, or empty.
func reservedFor(volume *corev1.PersistentVolume) string {
	if claim, err := api.LoadClaim(volume); err == nil && claim != nil {
		return claim.Name
	}
	return ""
}

// existingLink returns the link that this operation has already put on the volume, else the given one. The existing link may name the set
// by an older UID, and on a returning volume it names the operation that retired it.
func existingLink(volume *corev1.PersistentVolume, link api.Link) api.Link {
	if existing, err := api.LoadLink(volume); err == nil && existing != nil && existing.Operation == link.Operation {
		return *existing
	}
	return link
}

// linked reports whether the labels link the object to the operation.
func linked(labels map[string]string, operation string) bool {
	return labels[api.OperationLabel] == operation
}

// olderThanJournal reports whether the volume is older than the operation's journal, or there is no journal.
func olderThanJournal(in Input, id string, volume metav1.Object) bool {
	journal := in.Journal(id)
	created := volume.GetCreationTimestamp()
	return journal == nil || created.Before(&journal.CreationTimestamp)
}
