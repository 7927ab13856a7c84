package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// move is the next step of one claim, or where it has come to rest.
type move struct {
	actions  []plan.Action
	waiting  string // what the platform has to do first
	switched bool   // bound to its new volume; what is left to do does not concern the claim
	again    bool   // whole on its old volume, but the copy is stale
}

func act(actions []plan.Action) move { return move{actions: actions} }

func wait(format string, args ...any) move { return move{waiting: fmt.Sprintf(format, args...)} }

// step replaces a claim by one of the same name on another volume, without a moment in which a pod could start on
// anything but a whole copy:
//
//  1. both volumes are set to Retain, the temporary claim is deleted, so that the new volume gets free, and the old claim gets a
//     finalizer of ours;
//  2. the old claim is deleted. The scheduler places no pod on a claim that is being deleted (kubernetes
//     pkg/scheduler/framework/plugins/volumebinding), the claim protection controller lets go of it only when no scheduled pod
//     names it, and from then on the kubelet starts none either (pkg/kubelet/volumemanager/populator). So a claim that nothing but
//     our finalizer holds is frozen: what its volume has now, it keeps;
//  3. on the frozen claim it is decided which volume is whole and current: the new one, if no replica was wanted since
//     the copy began, else still the old one. That volume is reserved for the name, by a claimRef without UID, together
//     with the manifest of the claim to come;
//  4. the finalizer goes, and with it the claim, and the claim is created from the manifest. Whoever creates the name first, we or
//     the StatefulSet controller, is bound to the reserved volume.
//
// Each step is recognised from the live objects alone.
func step(in Input, status *api.Resize, part api.ClaimStatus) move {
	claim, old, fresh := in.Claim(part.Name), in.Volume(part.OldVolume), in.Volume(part.NewVolume)
	if claim != nil && claim.DeletionTimestamp == nil && fresh != nil && claim.Spec.VolumeName == fresh.Name {
		return settle(in, claim, fresh) // whatever has become of the volume that it had
	}
	if part.Returns() && part.Phase == api.ClaimSwitched && claim != nil && claim.Spec.VolumeName == part.OldVolume {
		part.Phase, part.UID = api.ClaimVerified, claim.UID // somebody has undone it, and a rollback goes forward
	}
	if old == nil || fresh == nil && claim == nil && part.Phase == api.ClaimVerified {
		return wait("volume %s or %s of claim %s does not exist any more", part.OldVolume, part.NewVolume, part.Name)
	}
	switch {
	case claim == nil:
		return create(in, status, part, old, fresh)
	case claim.DeletionTimestamp != nil:
		return replace(in, status, part, claim, old, fresh)
	case claim.Spec.VolumeName == part.OldVolume:
		return freeze(in, status, part, claim, old, fresh)
	case claim.Spec.VolumeName == "":
		return unbound(claim, reservedOf(old, fresh))
	}
	return wait("claim %s is bound to volume %s, which is neither its old volume %s nor its new one %s; delete the claim if its volume is empty",
		claim.Name, claim.Spec.VolumeName, part.OldVolume, part.NewVolume)
}

// freeze frees the new volume, then marks the old claim and deletes it.
func freeze(in Input, status *api.Resize, part api.ClaimStatus, claim *corev1.PersistentVolumeClaim, old, fresh *corev1.PersistentVolume) move {
	if !staysCurrent(in, status, part, claim, fresh) {
		if _, reserved := old.Annotations[api.ClaimManifestAnnotation]; !reserved {
			return move{again: true}
		}
		back := settle(in, claim, old)
		back.again, back.switched = back.switched, false
		return back
	}
	if held := sts.HeldByOthers("claim", claim); held != "" {
		return wait("%s", held) // a deletion cannot be taken back
	}
	prepare, unusable := free(in, status, part, old, fresh)
	if unusable != "" {
		return wait("%s", unusable)
	}
	prepare = append(prepare, plan.PatchOf(plan.Claims, claim).AddFinalizer(api.SwitchFinalizer).Actions()...)
	if len(prepare) > 0 {
		return act(prepare)
	}
	if target := in.TargetClaim(status.Operation, part.Name, status.Round); target != nil {
		if holder := holderOf(in, target); holder != "" {
			return wait("temporary claim %s is held by %s", target.Name, holder)
		}
	}
	return act([]plan.Action{plan.Delete(plan.Claims, claim)})
}

// free keeps both volumes, and takes the new one from its temporary claim. It says why the volume cannot be used, if that is so.
func free(in Input, status *api.Resize, part api.ClaimStatus, old, fresh *corev1.PersistentVolume) (actions []plan.Action, unusable string) {
	if !part.Returns() && !isMade(fresh, status.Operation, part.Name) {
		return nil, fmt.Sprintf("volume %s was not provisioned for operation %s", fresh.Name, status.Operation)
	}
	link := api.Link{Operation: status.Operation, Role: api.RoleTarget, Namespace: in.Namespace, Set: status.Set, Claim: part.Name}
	source := link
	source.Role = api.RoleSource
	if part.Returns() {
		link = ownLink(fresh, link)
	}
	actions = append(plan.HoldVolume(fresh, link).Actions(), plan.HoldVolume(old, ownLink(old, source)).Actions()...)
	if target := in.TargetClaim(status.Operation, part.Name, status.Round); target != nil && target.DeletionTimestamp == nil {
		actions = append(actions, plan.Delete(plan.Claims, target))
	}
	return actions, ""
}

// holderOf says what keeps a claim that is being deleted, or is empty if it will be gone within moments.
func holderOf(in Input, claim *corev1.PersistentVolumeClaim) string {
	for _, pod := range in.Pods {
		if sts.Mounts(pod, claim.Name) {
			return "pod " + pod.Name
		}
	}
	for _, finalizer := range claim.Finalizers {
		if finalizer != claimProtection {
			return "finalizer " + finalizer
		}
	}
	return ""
}

// claimProtection is the finalizer by which Kubernetes keeps a claim that a pod names (kubernetes pkg/volume/util, PVCProtectionFinalizer).
const claimProtection = "kubernetes.io/pvc-protection"

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
	old := api.Linked(volume, operation, api.RoleReturning) || api.Linked(volume, operation, api.RoleRetired) || api.Linked(volume, operation, api.RoleSource)
	return !old && linked(volume.Labels, operation) || isCopy(volume, operation, claim)
}

// comesBack reports whether an old volume is still held for the claim to get it back. One that somebody has bound to another
// claim meanwhile may be written to.
func comesBack(volume *corev1.PersistentVolume, operation string) bool {
	return api.Linked(volume, operation, api.RoleReturning) && (volume.Status.Phase == corev1.VolumeReleased || reserved(volume) != "")
}

// replace decides on a frozen claim which volume its name gets, reserves it, and lets the claim go.
func replace(in Input, status *api.Resize, part api.ClaimStatus, claim *corev1.PersistentVolumeClaim, old, fresh *corev1.PersistentVolume) move {
	if !slices.Contains(claim.Finalizers, api.SwitchFinalizer) {
		return wait("claim %s is being deleted by somebody else", claim.Name)
	}
	if !frozen(claim) {
		return wait("claim %s is held by another finalizer of %v", claim.Name, claim.Finalizers)
	}
	chosen := reservedOf(old, fresh)
	if chosen == nil && staysCurrent(in, status, part, claim, fresh) {
		return give(in, status, part, claim, old, fresh)
	}
	if chosen == nil {
		return reserve(in, status, part, claim, old, fresh)
	}
	if chosen.Status.Phase != corev1.VolumeAvailable {
		// A claim that the volume controller sees before the reservation would wait for its resync of 15 s.
		return wait("volume %s is not seen to be reserved yet", chosen.Name)
	}
	gone := plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.SwitchFinalizer).Actions() // as soon as that is answered: it is the last one
	return act(append(gone, create(in, status, part, old, fresh).actions...))
}

// give reserves the new volume for a frozen claim's name, as soon as no other claim has it.
func give(in Input, status *api.Resize, part api.ClaimStatus, claim *corev1.PersistentVolumeClaim, old, fresh *corev1.PersistentVolume) move {
	prepare, unusable := free(in, status, part, old, fresh) // whoever has deleted the claim may have done so before freeze
	target := in.TargetClaim(status.Operation, part.Name, status.Round)
	switch {
	case unusable != "":
		return wait("%s", unusable)
	case len(prepare) > 0:
		return act(prepare)
	case target != nil:
		return wait("temporary claim %s is being deleted", target.Name)
	}
	return reserve(in, status, part, claim, old, fresh)
}

// frozen reports whether nothing but our finalizer holds the claim.
func frozen(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp != nil && len(claim.Finalizers) == 1 && claim.Finalizers[0] == api.SwitchFinalizer
}

// reservedOf returns the one of the two volumes that is reserved for the claim's name, or nil.
func reservedOf(old, fresh *corev1.PersistentVolume) *corev1.PersistentVolume {
	for _, volume := range []*corev1.PersistentVolume{fresh, old} {
		if volume != nil && reserved(volume) != "" {
			return volume
		}
	}
	return nil
}

// staysCurrent reports whether the new volume of a frozen claim is whole and current, now and for ever.
func staysCurrent(in Input, status *api.Resize, part api.ClaimStatus, claim *corev1.PersistentVolumeClaim, fresh *corev1.PersistentVolume) bool {
	whole := fresh != nil && fresh.DeletionTimestamp == nil && part.Phase == api.ClaimVerified && claim.UID == part.UID
	if part.Returns() { // whatever is written to the claim's present volume meanwhile is given up anyway
		return whole && comesBack(fresh, status.Operation)
	}
	return whole && !dies(in, status, part, fresh) && in.Current(status)
}

// dies reports whether a copy is about to be deleted by whoever has provisioned it: its temporary claim has gone before the volume was
// kept, or somebody has taken that back.
func dies(in Input, status *api.Resize, part api.ClaimStatus, fresh *corev1.PersistentVolume) bool {
	kept := fresh.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	return !kept && in.TargetClaim(status.Operation, part.Name, status.Round) == nil
}

// reserve writes down which volume the name gets. The new one only if nobody wanted a replica since it was copied; the
// old one is right otherwise, since nothing was ever started on the new one.
func reserve(in Input, status *api.Resize, part api.ClaimStatus, claim *corev1.PersistentVolumeClaim, old, fresh *corev1.PersistentVolume) move {
	link := api.Link{Operation: status.Operation, Role: api.RoleSuccessor, Namespace: claim.Namespace, Set: status.Set, Claim: part.Name}
	manifest := in.ClaimManifest(claim)
	if manifest == nil {
		return wait("claim %s has changed and is read again", claim.Name)
	}
	if staysCurrent(in, status, part, claim, fresh) {
		return act(reservation(fresh, resources.MakeSuccessor(manifest, fresh, part.Target(), link)))
	}
	return act(reservation(old, resources.MakeSuccessor(manifest, old, api.Target{Size: fits(claim, old)}, link)))
}

// unbound is about a claim that the StatefulSet controller was first to create. It is bound to the reserved volume,
// unless it asks for what that one does not have; then it is in the way, and empty.
func unbound(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) move {
	if volume != nil {
		has, wants := volume.Spec.Capacity[corev1.ResourceStorage], sts.Requested(claim)
		differs := sts.ClassOf(claim) != volume.Spec.StorageClassName || attributes(claim) != attributesOf(volume)
		if differs || wants.Cmp(has) > 0 || !offers(volume, claim.Spec.AccessModes) {
			return act([]plan.Action{plan.Delete(plan.Claims, claim)})
		}
	}
	return wait("claim %s is not bound yet", claim.Name)
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

// reservation points the volume at the claim's name, without UID (kubernetes calls such a volume pre-bound), and
// stores the claim to create with it in the same write.
func reservation(volume *corev1.PersistentVolume, claim *unstructured.Unstructured) []plan.Action {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.GetNamespace(), Name: claim.GetName()}
	return plan.PatchOf(plan.Volumes, volume).Annotate(api.ClaimManifestAnnotation, api.EncodeClaim(claim)).
		Replace("/spec/claimRef", ref, "reserved for "+claim.GetName()).Actions()
}

// isCopy reports whether the volume has, or last had, a temporary claim that the operation creates for the claim.
func isCopy(volume *corev1.PersistentVolume, operation, claim string) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && api.IsCopyName(operation, claim, ref.Name)
}

// reserved is the name that the volume is reserved for, empty if it is for none.
func reserved(volume *corev1.PersistentVolume) string {
	if claim, err := api.LoadClaim(volume); err == nil && claim != nil {
		return claim.Name
	}
	return ""
}

// create makes the claim on the volume that is reserved for it. A claim that somebody deleted by hand has none
// reserved; then the volume that is whole is.
func create(in Input, status *api.Resize, part api.ClaimStatus, old, fresh *corev1.PersistentVolume) move {
	if volume := reservedOf(old, fresh); volume != nil {
		manifest, err := api.ClaimManifest(volume)
		if err != nil {
			return wait("%v", err)
		}
		claim := resources.UnblockOwners(manifest)                                                       // settle blocks them again
		unstructured.RemoveNestedField(claim.Object, "metadata", "annotations", api.OperationAnnotation) // settle adds it
		return act([]plan.Action{plan.Create(plan.Claims, claim)})
	}
	if in.Set == nil || sts.Template(in.Set, part.Template) == nil {
		return wait("claim %s was deleted; its data is on volume %s", part.Name, old.Name)
	}
	if part.Phase == api.ClaimSwitched && fresh != nil && linked(fresh.Labels, status.Operation) { // what it was on, and has the newest data
		return act(reservation(fresh, fromTemplate(in, part, fresh, part.Target())))
	}
	return act(reservation(old, fromTemplate(in, part, old, api.Target{Size: part.From})))
}

// fromTemplate builds a claim as the StatefulSet controller would.
func fromTemplate(in Input, part api.ClaimStatus, volume *corev1.PersistentVolume, target api.Target) *unstructured.Unstructured {
	status, _ := in.Status()
	link := api.Link{Role: api.RoleSuccessor, Namespace: in.Namespace, Set: api.SetRef{Name: in.Name}, Claim: part.Name}
	if status != nil {
		link.Operation, link.Set = status.Operation, status.Set
	}
	claim := resources.MakeClaim(in.Manifest, part.Template, part.Name)
	return resources.MakeSuccessor(claim, volume, target, link)
}
