package restore

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

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
		case expired && sharesStorage(in, volume):
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

// sharesStorage reports whether another volume that a claim uses is the same storage. A provisioner may derive its folder from the
// claim's name.
func sharesStorage(in Input, volume *corev1.PersistentVolume) bool {
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
