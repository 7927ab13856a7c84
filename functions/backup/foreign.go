package backup

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// keepForeign keeps the targets that hold data of others, before the operation ends and its temporary claims are deleted. A provisioner
// may hand out a folder that exists, as one does whose path pattern names an annotation: then the volume is new, and what is on it is not.
func keepForeign(in Input, status *api.Resize) []plan.Action {
	if disowned(in, status) != "" {
		return nil
	}
	var actions []plan.Action
	for _, part := range pending(status) {
		target := in.TargetClaim(status.Operation, part.Name, status.Round)
		if part.Returns() || target == nil || !foreign(in, part, target.Spec.VolumeName) {
			continue
		}
		link := linkOf(in, status, part, api.RoleForeign)
		actions = append(actions, plan.HoldVolume(in.Volume(target.Spec.VolumeName), link).Actions()...)
	}
	return actions
}

// foreign reports whether the mover has found data of others on the target, or the target is the same storage as the source.
func foreign(in Input, part api.ClaimStatus, target string) bool {
	found := []moverreport.Reason{moverreport.ReasonTargetNotEmpty, moverreport.ReasonUsage}
	return in.Volume(target) != nil && (slices.Contains(found, in.Reports[part.Name].Reason) || sameStorage(in, part, target))
}

// sameStorage reports whether the target leads to where the claim's own volume does.
func sameStorage(in Input, part api.ClaimStatus, target string) bool {
	old, fresh := in.Volume(part.OldVolume), in.Volume(target)
	return old != nil && fresh != nil && sts.SameStorage(old, fresh)
}
