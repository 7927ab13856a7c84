package backup

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
)

// retainForeignTargets sets targets that hold foreign data to the reclaim policy Retain, before the operation ends and its temporary claims
// are deleted. A provisioner may hand out an existing folder, for example if its path pattern contains an annotation. Then the volume is
// new, but its data is not.
func retainForeignTargets(in Input, record *api.Resize) []plan.Action {
	if !record.Copies() || resize.Forged(in.Observed, record) != "" {
		return nil
	}
	w := &work{Input: in, before: record, record: record}
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
			actions = append(actions, world.HoldVolume(in.Volume(target.Spec.VolumeName), w.link(api.RoleForeign, move.Claim)).Actions()...)
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
