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

// reservation points the volume at the claim's name, and stores the claim to create.
func reservation(volume *corev1.PersistentVolume, claim *unstructured.Unstructured) []plan.Action {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.GetNamespace(), Name: claim.GetName()}
	return plan.PatchOf(plan.Volumes, volume).Annotate(api.ClaimManifestAnnotation, api.EncodeClaim(claim)).
		Replace("/spec/claimRef", ref, "reserved for "+claim.GetName()).Actions()
}

// reserved is the name that the volume is reserved for, empty if it is for none.
func reserved(volume *corev1.PersistentVolume) string {
	if claim, err := api.LoadClaim(volume); err == nil && claim != nil {
		return claim.Name
	}
	return ""
}

// holderOf says what keeps a claim that is being deleted.
func holderOf(in Input, claim *corev1.PersistentVolumeClaim) string {
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

// ownLink keeps the link that the operation has given the volume before: it may name the set by an older UID, and it says of a volume
// that comes back whose it was.
func ownLink(volume *corev1.PersistentVolume, link api.Link) api.Link {
	if is, err := api.LoadLink(volume); err == nil && is != nil && is.Operation == link.Operation {
		return *is
	}
	return link
}

// isMade reports whether the volume was provisioned for the operation: it is held for it, and is no old one.
func isMade(volume *corev1.PersistentVolume, operation, claim string) bool {
	old := api.Linked(volume, operation, api.RoleReturning) || api.Linked(volume, operation, api.RoleRetired) ||
		api.Linked(volume, operation, api.RoleSource)
	return !old && linked(volume.Labels, operation) || isCopy(volume, operation, claim)
}

// isCopy reports whether the volume has, or last had, a temporary claim that the operation creates for the claim.
func isCopy(volume *corev1.PersistentVolume, operation, claim string) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && api.IsTargetName(operation, claim, ref.Name)
}

// comesBack reports whether an old volume is still kept for the claim. A volume that another process has bound to another claim may have
// been written to.
func comesBack(volume *corev1.PersistentVolume, operation string) bool {
	return api.Linked(volume, operation, api.RoleReturning) && (volume.Status.Phase == corev1.VolumeReleased || reserved(volume) != "")
}

// attributes returns the claim's VolumeAttributesClass, attributesOf the volume's; empty if it has none. The volume controller binds a
// claim only to a volume with the same (kubernetes pkg/controller/volume/persistentvolume/index.go).
func attributes(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

func attributesOf(volume *corev1.PersistentVolume) string {
	return ptr.Deref(volume.Spec.VolumeAttributesClassName, "")
}

// offers reports whether the volume has all the access modes: the volume controller binds no other
// (kubernetes pkg/controller/volume/persistentvolume/index.go).
func offers(volume *corev1.PersistentVolume, modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(volume.Spec.AccessModes, m) })
}

// fits returns the size that the claim asks for, but at most the volume's capacity. A claim that failed to grow asks for more, and
// Kubernetes binds no claim to a reserved volume that is too small.
func fits(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) resource.Quantity {
	return least(statefulset.Requested(claim), volume.Spec.Capacity[corev1.ResourceStorage])
}

func least(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

// withdraw takes back the reservation of the new volume. The volume gets a claim UID that no claim has, so that Kubernetes binds it to
// none.
func (s swap) withdraw() []plan.Action { return s.ifClaimUnchanged(s.unreserve(s.new)) }

// ifClaimUnchanged puts a check of the claim before writes to its volume. Volumes are read after claims, so a reservation on a volume may be of
// another process, for a newer claim. That claim would become Lost if the reservation was removed (kubernetes
// pkg/controller/volume/persistentvolume, syncBoundClaim).
func (s swap) ifClaimUnchanged(actions []plan.Action) []plan.Action {
	if len(actions) == 0 {
		return nil
	}
	check := plan.Absent(plan.Claims, s.Namespace, s.move.Claim)
	if s.claim != nil {
		check = plan.Unchanged(plan.Claims, s.claim)
	}
	return append([]plan.Action{check}, actions...)
}

// unreserve is withdraw for either of the two volumes.
func (s swap) unreserve(volume *corev1.PersistentVolume) []plan.Action {
	if volume == nil || reserved(volume) == "" {
		return nil
	}
	patch := plan.PatchOf(plan.Volumes, volume).Unannotate(api.ClaimManifestAnnotation)
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" {
		spent := *ref
		spent.UID = s.record.Set.UID // that of the live claim would have the volume controller reserve the volume again
		patch.Replace("/spec/claimRef", &spent, "no longer reserved")
	}
	return patch.Actions()
}

// renew reserves a volume again that was bound to a successor.
func (s swap) renew(volume *corev1.PersistentVolume) step {
	again := *volume.Spec.ClaimRef
	again.UID, again.ResourceVersion = "", ""
	return act(s.ifClaimUnchanged(plan.PatchOf(plan.Volumes, volume).Replace("/spec/claimRef", &again, "reserved for "+again.Name).Actions()))
}

// reserved returns the one of the two volumes that is reserved for the claim's name, or nil.
func (s swap) reserved() *corev1.PersistentVolume {
	for _, volume := range []*corev1.PersistentVolume{s.new, s.old} {
		if volume != nil && reserved(volume) != "" {
			return volume
		}
	}
	return nil
}

// reserve points the volume at the claim's name, without UID (Kubernetes calls such a volume pre-bound), and stores the claim to create
// with it in the same write.
func (s swap) reserve(volume *corev1.PersistentVolume, target api.Target) step {
	manifest := s.ClaimManifest(s.claim)
	if manifest == nil {
		return wait("claim %s has changed and is read again", s.claim.Name)
	}
	return act(s.ifClaimUnchanged(reservation(volume, resources.MakeSuccessor(manifest, volume, target, s.successor()))))
}
