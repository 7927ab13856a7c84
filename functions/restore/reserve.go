package restore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// claimProtection is Kubernetes' own finalizer on a claim. It stays while a pod names the claim (kubernetes pkg/volume/util,
// PVCProtectionFinalizer).
const claimProtection = "kubernetes.io/pvc-protection"

// reservation points the volume at the claim's name and stores the manifest of the claim to create.
func reservation(volume *corev1.PersistentVolume, claim *unstructured.Unstructured) []plan.Action {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.GetNamespace(), Name: claim.GetName()}
	return plan.PatchOf(plan.Volumes, volume).Annotate(api.ClaimManifestAnnotation, api.EncodeClaim(claim)).
		Replace("/spec/claimRef", ref, "reserved for "+claim.GetName()).Actions()
}

// reservedFor returns the claim name that the volume is reserved for, or empty.
func reservedFor(volume *corev1.PersistentVolume) string {
	if claim, err := api.LoadClaim(volume); err == nil && claim != nil {
		return claim.Name
	}
	return ""
}

// deletionHolder returns what keeps a terminating claim.
func deletionHolder(in Input, claim *corev1.PersistentVolumeClaim) string {
	for _, pod := range in.Pods {
		if statefulset.Mounts(pod, claim.Name) {
			return "pod " + pod.Name
		}
	}
	for _, finalizer := range claim.Finalizers {
		if finalizer != claimProtection {
			return "finalizer " + finalizer
		}
	}
	return "claim protection"
}

// existingLink returns the link that this operation has already put on the volume, else the given one. The existing link may name the set
// by an older UID, and on a returning volume it names the operation that retired it.
func existingLink(volume *corev1.PersistentVolume, link api.Link) api.Link {
	if existing, err := api.LoadLink(volume); err == nil && existing != nil && existing.Operation == link.Operation {
		return *existing
	}
	return link
}

// isNewVolume reports whether the volume was provisioned for the operation: it is linked to the operation and is not an old volume.
func isNewVolume(volume *corev1.PersistentVolume, operation, claim string) bool {
	old := api.HasLink(volume, operation, api.RoleReturning) || api.HasLink(volume, operation, api.RoleRetired) ||
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

// claimAttributesClass returns the claim's VolumeAttributesClass, or empty. The volume controller binds a claim only to a volume with the
// same class (kubernetes pkg/controller/volume/persistentvolume/index.go).
func claimAttributesClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

// volumeAttributesClass returns the volume's VolumeAttributesClass, or empty.
func volumeAttributesClass(volume *corev1.PersistentVolume) string {
	return ptr.Deref(volume.Spec.VolumeAttributesClassName, "")
}

// offersModes reports whether the volume has all the access modes. The volume controller binds no other volume (kubernetes
// pkg/controller/volume/persistentvolume/index.go).
func offersModes(volume *corev1.PersistentVolume, modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(volume.Spec.AccessModes,
			m)
	})
}

// fittingSize returns the size that the claim requests, but at most the volume's capacity. A claim that failed to grow requests more, and
// Kubernetes binds no claim to a reserved volume that is too small.
func fittingSize(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) resource.Quantity {
	return smaller(statefulset.Requested(claim), volume.Spec.Capacity[corev1.ResourceStorage])
}

func smaller(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

// withdrawReservation removes the reservation of the new volume. The volume's claimRef gets a UID that no claim has, so that Kubernetes
// binds the volume to none.
func (s swap) withdrawReservation() []plan.Action { return s.ifClaimUnchanged(s.unreserve(s.new)) }

// ifClaimUnchanged puts a check of the claim before writes to its volume. Volumes are read after claims, so a reservation on a volume may
// come from another process and belong to a newer claim. That claim would become Lost if the reservation was removed (kubernetes
// pkg/controller/volume/persistentvolume, syncBoundClaim).
func (s swap) ifClaimUnchanged(actions []plan.Action) []plan.Action {
	if len(actions) == 0 {
		return nil
	}
	check := plan.CheckAbsent(plan.Claims, s.Namespace, s.move.Claim)
	if s.claim != nil {
		check = plan.CheckUnchanged(plan.Claims, s.claim)
	}
	return append([]plan.Action{check}, actions...)
}

// unreserve removes the reservation of either of the two volumes.
func (s swap) unreserve(volume *corev1.PersistentVolume) []plan.Action {
	if volume == nil || reservedFor(volume) == "" {
		return nil
	}
	patch := plan.PatchOf(plan.Volumes, volume).Unannotate(api.ClaimManifestAnnotation)
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" {
		released := *ref
		released.UID = s.record.Set.UID // with the live claim's UID, the volume controller would reserve the volume again
		patch.Replace("/spec/claimRef", &released, "no longer reserved")
	}
	return patch.Actions()
}

// reserveAgain reserves a volume again after it was bound to a successor claim.
func (s swap) reserveAgain(volume *corev1.PersistentVolume) step {
	again := *volume.Spec.ClaimRef
	again.UID, again.ResourceVersion = "", ""
	return act(s.ifClaimUnchanged(plan.PatchOf(plan.Volumes, volume).Replace("/spec/claimRef", &again,
		"reserved for "+again.Name).Actions()))
}

// reservedVolume returns which of the two volumes is reserved for the claim's name, or nil.
func (s swap) reservedVolume() *corev1.PersistentVolume {
	for _, volume := range []*corev1.PersistentVolume{s.new, s.old} {
		if volume != nil && reservedFor(volume) != "" {
			return volume
		}
	}
	return nil
}

// reserve points the volume at the claim's name without a UID, which Kubernetes calls pre-bound. The same write stores the manifest of
// the claim to create.
func (s swap) reserve(volume *corev1.PersistentVolume, target api.Target) step {
	manifest := s.ClaimManifest(s.claim)
	if manifest == nil {
		return wait("claim %s has changed; it is read again", s.claim.Name)
	}
	return act(s.ifClaimUnchanged(reservation(volume, resources.MakeSuccessor(manifest, volume, target, s.successor()))))
}
