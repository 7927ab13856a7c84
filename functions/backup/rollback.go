package backup

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// comesBack reports whether the claim's old volume is there, and was left behind of this very claim: a document that names
// another volume was not written by Drydock.
func comesBack(in Input, status *api.Status, part api.ClaimStatus) bool {
	volume := in.Volume(part.NewVolume)
	if volume == nil || volume.Status.Phase != corev1.VolumeReleased {
		return false
	}
	link, err := api.LoadLink(volume)
	switch {
	case err != nil || link == nil || link.Namespace != in.Set.Namespace || link.Set.Name != in.Set.Name || link.Claim != part.Name:
		return false
	case link.Role == api.RoleReturning:
		return link.Operation == status.Operation
	}
	return link.Role == api.RoleRetired
}
