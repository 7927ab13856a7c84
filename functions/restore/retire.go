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

// retire gives old volumes their own reclaim policy back when their window is over, unless a rollback puts them back or they are the same
// storage as a volume in use. An orphan gets a window.
func retire(in Input, record *api.Resize) plan.Plan {
	var released, adopted []plan.Action
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		volume := in.Volumes[name]
		link, err := api.LoadLink(volume)
		if err != nil || link == nil || link.Namespace != in.Namespace || link.Set.Name != in.Name {
			continue // the status may name any
		}
		switch over := world.Expired(volume, in.Now) && !awaited(record, name); {
		case over && shares(in, volume):
			warning := fmt.Sprintf("the old volume %s stays as it is, with the reclaim policy Retain: it is the same storage as another volume in "+
				"use, whose data would go with it", name)
			released = append(released, append(world.LeaveVolume(volume).Actions(), tell(in, api.VolumeReleased, warning))...)
		case over:
			released = append(released, world.ReleaseVolume(volume).Actions()...)
		case orphan(in, record, volume, link) && link.Role == api.RoleForeign:
			released = append(released, world.LeaveVolume(volume).Actions()...)
		case orphan(in, record, volume, link):
			adopted = append(adopted, adopt(in, volume, *link).Actions()...)
		}
	}
	switch {
	case len(released)+len(adopted) == 0:
		return plan.Noop(api.NotOurPhase)
	case len(released) == 0:
		return plan.Do(api.VolumeOrphaned, adopted...)
	}
	return plan.Do(api.VolumeReleased, append(released, adopted...)...)
}

// shares reports whether another volume, which a claim uses, is the same storage. A provisioner may derive its folder from the claim's
// name.
func shares(in Input, volume *corev1.PersistentVolume) bool {
	for name, other := range in.Volumes {
		if name != volume.Name && other.Status.Phase == corev1.VolumeBound && statefulset.SameStorage(volume, other) {
			return true
		}
	}
	return false
}

// orphan reports whether no set and no journal names the operation that holds the volume.
func orphan(in Input, record *api.Resize, volume *corev1.PersistentVolume, link *api.Link) bool {
	runs := record != nil && record.Active() && record.Operation == link.Operation
	return !runs && in.Journal(link.Operation) == nil && world.MayBeOrphan(volume, in.Now)
}

// adopt gives an orphan its window. If it is reserved for the name of a claim, it gets a claim UID that no claim has, so that Kubernetes
// does not bind it to the next claim of that name.
func adopt(in Input, volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	patch := retain(in, volume, link)
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" && link.Set.UID != "" {
		spent := *ref
		spent.UID = link.Set.UID
		patch.Replace("/spec/claimRef", &spent, "no longer reserved")
	}
	return patch
}

// awaited reports whether the operation under way is to put the volume back: it was asked for in time.
func awaited(record *api.Resize, volume string) bool {
	return record != nil && record.Active() && record.IsRollback() &&
		slices.ContainsFunc(record.Moves(), func(m *api.Move) bool { return m.NewVolume == volume })
}
