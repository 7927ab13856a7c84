package backup

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// clockSkew is how far the clocks of two API servers may differ: one stamps the temporary claim, another one its volume.
const clockSkew = 10 * time.Second

// checkTargets returns why a target must not be written to; empty if all may. The mover may delete data on a target, so a volume that is
// older than its temporary claim never becomes one.
func checkTargets(in Input, record *api.Resize) (api.Reason, string) {
	for _, move := range open(record) {
		target := in.TargetClaim(record.Operation, move)
		if !record.Copies() || target == nil || target.Spec.VolumeName == "" {
			continue
		}
		volume := in.Volume(target.Spec.VolumeName)
		if volume == nil {
			return api.ClaimLost, fmt.Sprintf("volume %s of temporary claim %s is gone; look at kubectl describe pvc %s, then %s",
				target.Spec.VolumeName, target.Name, target.Name, operation.AskAgain(record))
		}
		if sameStorage(in, move, volume.Name) {
			return api.NotProvisioned, fmt.Sprintf("volume %s, provisioned for the copy of claim %s, is the same storage as its volume %s. "+
				"It is kept, and its reclaim policy is Retain now: to delete it would delete the data. Name a StorageClass that provisions a separate "+
				"folder, then %s",
				volume.Name, move.Claim, move.OldVolume, operation.AskAgain(record))
		}
		if !world.ProvisionedSince(volume, target.CreationTimestamp.Add(-clockSkew)) {
			return api.NotProvisioned, fmt.Sprintf("temporary claim %s for the copy of claim %s was bound to volume %s, which was not provisioned "+
				"for it. Nothing is copied to a volume that may hold data. Reserve volume %s for its owner with spec.claimRef, or name a "+
				"StorageClass that provisions volumes, then %s",
				target.Name, move.Claim, volume.Name, volume.Name, operation.AskAgain(record))
		}
		old, fresh := statefulset.NodesOfVolume(in.Volume(move.OldVolume)), statefulset.NodesOfVolume(volume)
		if old.Apart(fresh) {
			return api.CopyFailed, fmt.Sprintf("the new volume %s of claim %s is reachable from nodes with %s only, "+
				"its volume %s from nodes with %s only, so no node can mount both. Name a StorageClass with volumeBindingMode WaitForFirstConsumer, "+
				"or with volumes there",
				volume.Name, move.Claim, fresh, move.OldVolume, old)
		}
	}
	return "", ""
}

// checkUnclaimed returns which existing volume Kubernetes would bind to a temporary claim instead of provisioning one, or nothing.
// It is asked before the claim is created, since a mover can start before the binding is seen.
func checkUnclaimed(in Input, claim *corev1.PersistentVolumeClaim, move *api.Move) string {
	i := slices.IndexFunc(in.Unclaimed, func(v *corev1.PersistentVolume) bool { return satisfies(v, claim) })
	if i < 0 {
		return ""
	}
	volume := in.Unclaimed[i].Name
	return fmt.Sprintf("volume %s of StorageClass %q has no claim, so Kubernetes would bind it to the copy of claim %s instead of "+
		"provisioning a volume. Nothing is copied to a volume that may hold data. Reserve volume %s for its owner with spec.claimRef, or name "+
		"a StorageClass that provisions volumes",
		volume, className(claim), move.Claim, volume)
}

// satisfies reports whether Kubernetes may bind the unclaimed volume to the claim. It asks the same as the volume binder, except
// for node affinity, which depends on where the pod goes.
func satisfies(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	spec := volume.Spec
	if ref := spec.ClaimRef; ref != nil { // reserved: the binder asks nothing else
		return ref.Namespace == claim.Namespace && ref.Name == claim.Name
	}
	request, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], spec.Capacity[corev1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil, spec.StorageClassName != className(claim), capacity.Cmp(request) < 0:
		return false
	case modeOf(spec.VolumeMode) != modeOf(claim.Spec.VolumeMode),
		text(spec.VolumeAttributesClassName) != text(claim.Spec.VolumeAttributesClassName):
		return false
	}
	return !slices.ContainsFunc(claim.Spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(spec.AccessModes, m) })
}

func className(claim *corev1.PersistentVolumeClaim) string { return text(claim.Spec.StorageClassName) }

func text(s *string) string {
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

// lacksTarget reports whether a temporary claim is to be created.
func lacksTarget(in Input, record *api.Resize) bool {
	return record.Copies() && slices.ContainsFunc(open(record), func(move *api.Move) bool {
		return in.TargetClaim(record.Operation, move) == nil
	})
}

// makeTargets creates the temporary claims of a member.
func (w *work) makeTargets(member *api.Member) []plan.Action {
	var actions []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if target := w.TargetClaim(w.record.Operation, move); target != nil {
			move.NewVolume = target.Spec.VolumeName
			continue
		}
		link := w.link(api.RoleTarget, move.Claim)
		claim := resources.MakeTargetClaim(w.Claim(move.Claim), move, link)
		if problem := checkUnclaimed(w.Input, claim, move); problem != "" {
			w.fail(api.NotProvisioned, "%s", problem)
			return nil
		}
		move.ForgetProgress() // no mover has taken it for its own yet
		actions = append(actions, plan.Create(plan.Claims, claim))
	}
	return actions
}

// link ties an object to a claim of the operation.
func (w *work) link(role api.Role, claim string) api.Link {
	return api.Link{Operation: w.record.Operation, Role: role, Namespace: w.Set.Namespace, Set: w.record.Set, Claim: claim}
}

// holdSources sets the volumes of a member to Retain, so that no lost claim can take its data along, and links claims and volumes.
func (w *work) holdSources(member *api.Member) []plan.Action {
	var actions []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		volume, claim := w.Volume(move.OldVolume), w.Claim(move.Claim)
		if volume == nil || claim == nil || move.Moved {
			continue // hopeless says so
		}
		link := w.link(api.RoleSource, move.Claim)
		actions = append(actions, world.HoldVolume(volume, link).Actions()...)
		actions = append(actions, plan.PatchOf(plan.Claims, claim).Link(link).Actions()...)
		if fresh := w.Volume(move.NewVolume); w.record.IsRollback() && fresh != nil { // its window must not end now
			actions = append(actions, world.HoldVolume(fresh, w.returningLink(move)).Actions()...)
		}
	}
	return actions
}

// returningLink is the link of an old volume that is to come back. It says whose the volume was, in case it does not.
func (w *work) returningLink(move *api.Move) api.Link {
	link := w.link(api.RoleReturning, move.Claim)
	is, err := api.LoadLink(w.Volume(move.NewVolume))
	switch {
	case err != nil || is == nil: // comesBack has seen it
	case is.Operation == w.record.Operation && is.Role == api.RoleReturning:
		return *is
	case is.Operation != w.record.Operation:
		link.Before = is.Operation
	}
	return link
}

// comesBack reports whether the claim's old volume is there, and was left behind of this very claim: a record that names another volume
// was not written by Drydock.
func comesBack(in Input, record *api.Resize, move *api.Move) bool {
	volume := in.Volume(move.NewVolume)
	if volume == nil || volume.Status.Phase != corev1.VolumeReleased {
		return false
	}
	link, err := api.LoadLink(volume)
	switch {
	case err != nil || link == nil || link.Namespace != in.Set.Namespace || link.Set.Name != in.Set.Name || link.Claim != move.Claim:
		return false
	case link.Role == api.RoleReturning:
		return link.Operation == record.Operation
	}
	return link.Role == api.RoleRetired && link.Operation == record.RollsBack
}
