package backup

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// targetProblem returns a reason and a message if the mover must not write to a target. Both are empty if all targets are usable. The mover
// may delete data on a target, so a volume that is older than its temporary claim is never used.
func targetProblem(in Input, record *api.Resize) (api.Reason, string) {
	for _, move := range movesBeforeSwap(record) {
		target := in.TargetClaim(record.Operation, move)
		if !record.Copies() || target == nil || target.Spec.VolumeName == "" {
			continue
		}
		volume := in.Volume(target.Spec.VolumeName)
		if volume == nil {
			return api.ClaimLost, fmt.Sprintf("volume %s of temporary claim %s is gone. Look at kubectl describe pvc -n %s %s, then %s",
				target.Spec.VolumeName, target.Name, target.Namespace, target.Name, operation.HowToRetry(in.Set.Namespace, record))
		}
		if sharesStorage(in, move, volume.Name) {
			return api.NotProvisioned, fmt.Sprintf("volume %s, provisioned for the copy of claim %s, is the same storage as its volume %s. "+
				"Its reclaim policy is now Retain, because deleting it would delete the data. Name a StorageClass that provisions a separate "+
				"folder, then %s",
				volume.Name, move.Claim, move.OldVolume, operation.HowToRetry(in.Set.Namespace, record))
		}
		if !world.ProvisionedSince(volume, target.CreationTimestamp.Add(-moving.SkewOfServers)) {
			return api.NotProvisioned, fmt.Sprintf("temporary claim %s for the copy of claim %s was bound to volume %s, which was not provisioned "+
				"for it and may hold data. Reserve volume %s for its owner with spec.claimRef, or name a StorageClass that provisions volumes, then %s",
				target.Name, move.Claim, volume.Name, volume.Name, operation.HowToRetry(in.Set.Namespace, record))
		}
		old, fresh := statefulset.NodesOfVolume(in.Volume(move.OldVolume)), statefulset.NodesOfVolume(volume)
		if old.Disjoint(fresh) {
			return api.CopyFailed, fmt.Sprintf("no node can mount both volumes of claim %s: the new volume %s is reachable only from nodes "+
				"with %s, the present volume %s only from nodes with %s. Name a StorageClass with volumeBindingMode WaitForFirstConsumer, or with "+
				"volumes on those nodes", move.Claim, volume.Name, fresh, move.OldVolume, old)
		}
	}
	return "", ""
}

// needsTarget reports whether a temporary claim has to be created.
func needsTarget(in Input, record *api.Resize) bool {
	return record.Copies() && slices.ContainsFunc(movesBeforeStop(record), func(move *api.Move) bool {
		return in.TargetClaim(record.Operation, move) == nil
	})
}

// createTargets returns the actions that create the member's missing temporary claims.
func (w *work) createTargets(member *api.Member) []plan.Action {
	var actions []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if target := w.TargetClaim(w.Record.Operation, move); target != nil {
			move.NewVolume = target.Spec.VolumeName
			continue
		}
		if reason, message := volumeProblem(w.Input, w.Record, move); reason != "" { // the first check covers only members that have not stopped
			w.fail(reason, "%s", message)
			return nil
		}
		link := w.Record.Link(api.RoleTarget, w.Set.Namespace).OfClaim(move.Claim)
		claim := resources.MakeTargetClaim(w.Claim(move.Claim), move, link)
		if problem := bindingConflict(w.Input, claim, move); problem != "" {
			w.fail(api.NotProvisioned, "%s", problem)
			return nil
		}
		move.ForgetProgress() // no mover has written to the new target yet
		actions = append(actions, plan.Create(plan.Claims, claim))
	}
	return actions
}

// movesBeforeStop returns the open moves of the members that are not stopped yet.
func movesBeforeStop(record *api.Resize) []*api.Move {
	return openMoves(record, api.MemberPending, api.MemberCopying, api.MemberWaiting)
}

// movesBeforeSwap returns these and the open moves of the members in their final pass, whose targets may be bound only then.
func movesBeforeSwap(record *api.Resize) []*api.Move {
	return openMoves(record, api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberFinalPass)
}

func openMoves(record *api.Resize, phases ...api.MemberPhase) []*api.Move {
	var moves []*api.Move
	for i := range record.Members {
		if member := &record.Members[i]; slices.Contains(phases, member.Phase) {
			for j := range member.Claims {
				if !member.Claims[j].Moved {
					moves = append(moves, &member.Claims[j])
				}
			}
		}
	}
	return moves
}

// sharesStorage reports whether the target and the claim's own volume are the same storage.
func sharesStorage(in Input, move *api.Move, target string) bool {
	old, fresh := in.Volume(move.OldVolume), in.Volume(target)
	return old != nil && fresh != nil && statefulset.SameStorage(old, fresh)
}

// targetsHoldData reports whether a mover has already copied to the member's present targets. A final pass completes one target after the
// other, and a complete target no longer carries the mark of its operation.
func targetsHoldData(member *api.Member) bool {
	return slices.ContainsFunc(member.Claims, func(move api.Move) bool { return !move.Moved && move.Files > 0 })
}

// retainSources sets the member's volumes to Retain, so that the loss of a claim never deletes data. It also links claims and volumes.
func (w *work) retainSources(member *api.Member) []plan.Action {
	var actions []plan.Action
	for i := range member.Claims {
		move := &member.Claims[i]
		volume, claim := w.Volume(move.OldVolume), w.Claim(move.Claim)
		if volume == nil || claim == nil || move.Moved {
			continue // revertReason has found it, or the move is done
		}
		link := w.Record.Link(api.RoleSource, w.Set.Namespace).OfClaim(move.Claim)
		actions = append(actions, world.HoldVolume(volume, link).Actions()...)
		actions = append(actions, plan.PatchOf(plan.Claims, claim).Link(link).Actions()...)
		if fresh := w.Volume(move.NewVolume); w.Record.IsRollback() && fresh != nil { // its retention must not end during the rollback
			actions = append(actions, world.HoldVolume(fresh, w.returningLink(move)).Actions()...)
		}
	}
	return actions
}

// returningLink returns the link of an old volume that a rollback restores. It names the operation that left the volume, in case the
// rollback fails.
func (w *work) returningLink(move *api.Move) api.Link {
	link := w.Record.Link(api.RoleReturning, w.Set.Namespace).OfClaim(move.Claim)
	present, err := api.LoadLink(w.Volume(move.NewVolume))
	switch {
	case err != nil || present == nil: // oldVolumeAvailable has checked it
	case present.Operation == w.Record.Operation && present.Role == api.RoleReturning:
		return *present
	case present.Operation != w.Record.Operation:
		link.Before = present.Operation
	}
	return link
}

// sourceUnchanged reports whether the claim still has the recorded UID and is bound to the recorded volume.
func sourceUnchanged(in Input, move *api.Move) bool {
	claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
	return claim != nil && claim.UID == move.UID && claim.DeletionTimestamp == nil && volume != nil && statefulset.Bound(claim, volume)
}

// oldVolumeAvailable reports whether the old volume exists and was left by this very claim. Drydock writes no record that names another
// volume.
func oldVolumeAvailable(in Input, record *api.Resize, move *api.Move) bool {
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
	return link.Role == api.RoleOldVolume && link.Operation == record.RollsBack
}

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
		volume, statefulset.ClassOf(claim), move.Claim, volume)
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
	case volume.DeletionTimestamp != nil, spec.StorageClassName != statefulset.ClassOf(claim), capacity.Cmp(request) < 0:
		return false
	case ptr.Deref(spec.VolumeMode, corev1.PersistentVolumeFilesystem) != ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem),
		ptr.Deref(spec.VolumeAttributesClassName, "") != ptr.Deref(claim.Spec.VolumeAttributesClassName, ""):
		return false
	}
	return !slices.ContainsFunc(claim.Spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(spec.AccessModes, m) })
}

// retainForeignTargets sets targets that hold foreign data to the reclaim policy Retain, before the operation ends and its temporary claims
// are deleted. A provisioner may hand out an existing folder, for example if its path pattern contains an annotation. Then the volume is
// new, but its data is not.
func retainForeignTargets(in Input, record *api.Resize) []plan.Action {
	if !record.Copies() || moving.Forged(in.Observed, record) != "" {
		return nil
	}
	w := &work{Input: in, Work: moving.Work{Before: record, Record: record}}
	var actions []plan.Action
	for i := range record.Members {
		member := &record.Members[i]
		m := w.moverOf(member)
		refused := m.refusedTarget() && !m.refusedOwnTarget(member)
		for j := range member.Claims {
			move := &member.Claims[j]
			target := in.TargetClaim(record.Operation, move)
			if target == nil || in.Volume(target.Spec.VolumeName) == nil || !refused && !sharesStorage(in, move, target.Spec.VolumeName) {
				continue
			}
			link := record.Link(api.RoleForeign, in.Set.Namespace).OfClaim(move.Claim)
			actions = append(actions, world.HoldVolume(in.Volume(target.Spec.VolumeName), link).Actions()...)
		}
	}
	return actions
}

// refusedTarget reports whether the mover found foreign data on a target. Only the text of its message names the target, so all targets of
// the member are retained.
func (m mover) refusedTarget() bool {
	reasons := []moverreport.Reason{moverreport.ReasonTargetNotEmpty, moverreport.ReasonUsage}
	return m.job != nil && m.report() != nil && slices.Contains(reasons, m.report().Reason)
}

// refusedOwnTarget reports whether the mover refused a target that an earlier mover of the same stop had completed. The earlier mover was
// lost before it could report.
func (m mover) refusedOwnTarget(member *api.Member) bool {
	r := m.report()
	return member.Phase == api.MemberFinalPass && targetsHoldData(member) && r != nil && r.Reason == moverreport.ReasonTargetNotEmpty
}
