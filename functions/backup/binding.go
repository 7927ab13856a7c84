package backup

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// bindingConflict returns a message if Kubernetes would bind an existing volume to the temporary claim instead of provisioning one. It is
// empty otherwise. The check runs before the claim is created, because a mover could start before Drydock observes the binding.
func bindingConflict(in Input, claim *corev1.PersistentVolumeClaim, move *api.Move) string {
	i := slices.IndexFunc(in.Unclaimed, func(v *corev1.PersistentVolume) bool { return mayBind(v, claim) })
	if i < 0 {
		return ""
	}
	volume := in.Unclaimed[i].Name
	return fmt.Sprintf("volume %s of StorageClass %q has no claim and may hold data, but Kubernetes would bind it to the copy of claim %s "+
		"instead of provisioning a volume. Reserve volume %s for its owner with spec.claimRef, or name a StorageClass that provisions volumes",
		volume, className(claim), move.Claim, volume)
}

// mayBind reports whether Kubernetes may bind the unclaimed volume to the claim. It makes the same checks as the volume binder, except for
// node affinity, which depends on the node of the pod.
func mayBind(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	spec := volume.Spec
	if ref := spec.ClaimRef; ref != nil { // reserved: the binder checks nothing else
		return ref.Namespace == claim.Namespace && ref.Name == claim.Name
	}
	request, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], spec.Capacity[corev1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil, spec.StorageClassName != className(claim), capacity.Cmp(request) < 0:
		return false
	case modeOf(spec.VolumeMode) != modeOf(claim.Spec.VolumeMode),
		deref(spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName):
		return false
	}
	return !slices.ContainsFunc(claim.Spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(spec.AccessModes, m) })
}

func className(claim *corev1.PersistentVolumeClaim) string { return deref(claim.Spec.StorageClassName) }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}
