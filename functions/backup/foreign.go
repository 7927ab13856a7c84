package backup

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// keepForeign keeps the targets that hold data of others, before the operation ends and its temporary claims are deleted. A provisioner
// may hand out a folder that exists, for example if its path pattern names an annotation: then the volume is new, and its data is not.
func keepForeign(in Input, record *api.Resize) []plan.Action {
	if !record.Copies() || disowned(in, record) != "" {
		return nil
	}
	w := &work{Input: in, before: record, record: record}
	var actions []plan.Action
	for i := range record.Members {
		member := &record.Members[i]
		m := w.moverOf(member)
		refused := m.refusedTarget() && !m.refusedOurs(member)
		for j := range member.Claims {
			move := &member.Claims[j]
			target := in.TargetClaim(record.Operation, move)
			if target == nil || in.Volume(target.Spec.VolumeName) == nil || !refused && !sameStorage(in, move, target.Spec.VolumeName) {
				continue
			}
			actions = append(actions, world.HoldVolume(in.Volume(target.Spec.VolumeName), w.link(api.RoleForeign, move.Claim)).Actions()...)
		}
	}
	return actions
}

// refusedTarget reports whether the mover has found data of others on a target. Which one, its message says for people only, so all
// targets of the member are kept.
func (m mover) refusedTarget() bool {
	found := []moverreport.Reason{moverreport.ReasonTargetNotEmpty, moverreport.ReasonUsage}
	return m.job != nil && m.report() != nil && slices.Contains(found, m.report().Reason)
}

// sameStorage reports whether the target leads to where the claim's own volume does.
func sameStorage(in Input, move *api.Move, target string) bool {
	old, fresh := in.Volume(move.OldVolume), in.Volume(target)
	return old != nil && fresh != nil && statefulset.SameStorage(old, fresh)
}
