package restore

import (
	"slices"

	"drydock.dev/shared/api"
)

// halfBack reports whether a rollback has begun to replace claims: half if claims that must come back together with the member's, own if
// claims of the member itself. A pod must not start on volumes of different times. Where all members stop together, the set must not
// either.
func (in Input) halfBack(record *api.Resize, member *api.Member) (half, own bool) {
	for _, m := range record.Members {
		if m.Stopped == nil || !slices.ContainsFunc(m.Claims, in.leaves) {
			continue
		}
		own = own || m.Ordinal == member.Ordinal
		half = half || own || record.Strategy == api.StrategyWhole
	}
	return half, own
}

// allComeBack reports whether every volume is there that the member is to get back, or has already.
func (in Input) allComeBack(record *api.Resize, member *api.Member) bool {
	return !slices.ContainsFunc(member.Claims, func(move api.Move) bool {
		claim, volume := in.Claim(move.Claim), in.Volume(move.NewVolume)
		is := claim != nil && claim.Spec.VolumeName == move.NewVolume
		return volume == nil || volume.DeletionTimestamp != nil || !is && !comesBack(volume, record.Operation)
	})
}

// leaves reports whether the claim is not on its present volume any more, or about to leave it.
func (in Input) leaves(move api.Move) bool {
	claim := in.Claim(move.Claim)
	return claim == nil || claim.Spec.VolumeName != move.OldVolume ||
		claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.SwitchFinalizer)
}

// goesAlong reports whether a claim on its present volume must follow other claims of a rollback, even if the operation is given up or the
// hold is lost. No pod of the member starts while one of its claims is being deleted.
func (s swap) goesAlong() bool { return s.whole && (s.held && s.half || s.ownHalf) }

// first is a claim of the member that is still to be deleted before this one may be bound to its old volume; empty if there is none.
func (s swap) first() string {
	if !s.returns || !s.ownHalf || !s.goesOn() {
		return ""
	}
	for i := range s.member.Claims {
		if move := s.member.Claims[i]; !s.leaves(move) {
			return move.Claim
		}
	}
	return ""
}
