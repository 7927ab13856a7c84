package restore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
)

// reservation points the volume at the claim's name and stores the manifest of the claim to create.
func reservation(volume *corev1.PersistentVolume, claim *unstructured.Unstructured) []plan.Action {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.GetNamespace(), Name: claim.GetName()}
	return plan.PatchOf(plan.Volumes, volume).Annotate(api.ClaimManifestAnnotation, api.EncodeClaim(claim)).
		Replace("/spec/claimRef", ref, "reserved for "+claim.GetName()).Actions()
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

// successor returns the link of the claim that replaces the old one.
func (s swap) successor() api.Link {
	return api.Link{Operation: s.record.Operation, Role: api.RoleNewClaim, Namespace: s.Namespace, Set: s.record.Set, Claim: s.move.Claim}
}
