package restore

import (
	"slices"

	"drydock.dev/shared/api"
)

// rollbackBegan reports whether a rollback has begun to replace claims: partial if these must come back together with the member's
// claims, own if they are the member's. A pod must not start on volumes of different times. Where all members stop together, neither may
// the set.
func (in Input) rollbackBegan(record *api.Resize, member *api.Member) (partial, own bool) {
	for _, m := range record.Members {
		if m.StoppedAt == nil || !slices.ContainsFunc(m.Claims, in.leavesVolume) {
			continue
		}
		own = own || m.Ordinal == member.Ordinal
		partial = partial || own || record.Strategy == api.StrategyWhole
	}
	return partial, own
}

// oldVolumesAvailable reports whether the member has, or can get back, every old volume.
func (in Input) oldVolumesAvailable(record *api.Resize, member *api.Member) bool {
	return !slices.ContainsFunc(member.Claims, func(move api.Move) bool {
		claim, volume := in.Claim(move.Claim), in.Volume(move.NewVolume)
		onVolume := claim != nil && claim.Spec.VolumeName == move.NewVolume
		return volume == nil || volume.DeletionTimestamp != nil || !onVolume && !isReturning(volume, record.Operation)
	})
}

// leavesVolume reports whether the claim has left its present volume or will soon leave it.
func (in Input) leavesVolume(move api.Move) bool {
	claim := in.Claim(move.Claim)
	return claim == nil || claim.Spec.VolumeName != move.OldVolume ||
		claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.FreezeFinalizer)
}

// mustFollowRollback reports whether a claim on its present volume must follow other claims of a rollback, even if the operation is given
// up or the hold is lost. No pod of the member can start while one of its claims is being deleted.
func (s swap) mustFollowRollback() bool {
	return s.newIsComplete && (s.held && s.rollbackPartial || s.memberPartial)
}
