package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Unsettled returns obstacles that pass by themselves before a resize can begin. LinkInvalid does not pass, and is a refusal.
func Unsettled(in Input, w *Wish) []Problem {
	var found []Problem
	if w.Recreate && statefulset.TwoRevisions(in.Set) {
		found = append(found, problem(api.RolloutRunning,
			"a partition keeps replicas of an older revision, which a set that is created again would not know; finish the rollout, or undo it"))
	}
	for _, c := range w.Claims {
		switch link, err := api.LoadLink(c); {
		case err != nil:
			found = append(found, problem(api.LinkInvalid, "%v", err))
		case link != nil:
			found = append(found, problem(api.CleaningUp, "claim %s is still part of operation %s", c.Name, link.Operation))
		case c.Spec.VolumeName == "":
			found = append(found, problem(api.ClaimNotBound, "claim %s has no volume yet; look at kubectl describe pvc %s", c.Name, c.Name))
		case in.Volume(c.Spec.VolumeName) == nil:
			found = append(found, problem(api.ClaimNotBound, "volume %s of claim %s does not exist; bring the volume back, or delete the claim if "+
				"its data is given up", c.Spec.VolumeName, c.Name))
		}
	}
	return found
}

// Settles reports whether the problem goes away by itself, so that the resize waits and is not refused.
func (p Problem) Settles() bool {
	return p.Reason == api.RolloutRunning || p.Reason == api.CleaningUp || p.Reason == api.ClaimNotBound
}
