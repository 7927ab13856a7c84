package restore

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
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
	return s.record.Link(api.RoleNewClaim, s.Namespace).OfClaim(s.move.Claim)
}

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

// retire restores the reclaim policy of old volumes when their retention is over, unless a rollback needs them or they share their
// storage with a volume in use. An orphaned volume gets a retention.
func retire(in Input, record *api.Resize) plan.Plan {
	var released, adopted []plan.Action
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		volume := in.Volumes[name]
		link, err := api.LoadLink(volume)
		if err != nil || link == nil || link.Namespace != in.Namespace || link.Set.Name != in.Name {
			continue // a record may name any volume
		}
		switch expired := world.Expired(volume, in.Now) && !neededByRollback(record, name); {
		case expired && storageInUse(in, volume):
			warning := fmt.Sprintf("the old volume %s keeps the reclaim policy Retain: it has the same storage as another volume in use, "+
				"so its deletion would delete that volume's data. Delete the PersistentVolume by hand; its storage stays", name)
			released = append(released, append(world.LeaveVolume(volume).Actions(), warnOnSet(in, api.RetentionEnded, warning))...)
		case expired:
			released = append(released, world.ReleaseVolume(volume).Actions()...)
		case isOrphan(in, record, volume, link) && link.Role == api.RoleForeign:
			released = append(released, world.LeaveVolume(volume).Actions()...)
		case isOrphan(in, record, volume, link):
			adopted = append(adopted, adoptOrphan(in, volume, *link).Actions()...)
		}
	}
	switch {
	case len(released)+len(adopted) == 0:
		return plan.Noop(api.NotOurPhase)
	case len(released) == 0:
		return plan.Do(api.VolumeOrphaned, adopted...)
	}
	return plan.Do(api.RetentionEnded, append(released, adopted...)...)
}

// storageInUse reports whether another volume that a claim uses is the same storage. A provisioner may derive its folder from the
// claim's name.
func storageInUse(in Input, volume *corev1.PersistentVolume) bool {
	for name, other := range in.Volumes {
		if name != volume.Name && other.Status.Phase == corev1.VolumeBound && statefulset.SameStorage(volume, other) {
			return true
		}
	}
	return false
}

// isOrphan reports whether no set and no journal names the operation that holds the volume.
func isOrphan(in Input, record *api.Resize, volume *corev1.PersistentVolume, link *api.Link) bool {
	active := record != nil && record.Active() && record.Operation == link.Operation
	return !active && in.Journal(link.Operation) == nil && world.MayBeOrphan(volume, in.Now)
}

// adoptOrphan gives an orphaned volume its retention. A volume that is reserved for a claim's name gets a claimRef with a UID that no
// claim has. So Kubernetes does not bind it to the next claim with that name.
func adoptOrphan(in Input, volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	patch := retain(in, volume, link)
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" && link.Set.UID != "" {
		released := *ref
		released.UID = link.Set.UID
		patch.Replace("/spec/claimRef", &released, "no longer reserved")
	}
	return patch
}

// neededByRollback reports whether the active operation is a rollback that needs the volume. It was requested in time.
func neededByRollback(record *api.Resize, volume string) bool {
	return record != nil && record.Active() && record.IsRollback() &&
		slices.ContainsFunc(record.Moves(), func(m *api.Move) bool { return m.NewVolume == volume })
}
