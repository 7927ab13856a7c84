package backup

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// clockSkew is how far the clocks of two API servers may differ. One may create the temporary claim, the other its volume.
const clockSkew = 10 * time.Second

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
		if !world.ProvisionedSince(volume, target.CreationTimestamp.Add(-clockSkew)) {
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
		if target := w.TargetClaim(w.record.Operation, move); target != nil {
			move.NewVolume = target.Spec.VolumeName
			continue
		}
		if reason, message := lostVolume(w.Input, w.record, move); reason != "" { // the first check covers only members that have not stopped
			w.fail(reason, "%s", message)
			return nil
		}
		link := w.link(api.RoleTarget, move.Claim)
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

// discardTargets makes the record name other targets for the member's claims. The data on the present targets does not count any more.
func discardTargets(member *api.Member) {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved {
			move.DiscardCopy()
		}
	}
}

// targetsHoldData reports whether a mover has already copied to the member's present targets. A final pass completes one target after the
// other, and a complete target no longer carries the mark of its operation.
func targetsHoldData(member *api.Member) bool {
	return slices.ContainsFunc(member.Claims, func(move api.Move) bool { return !move.Moved && move.Files > 0 })
}
