package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// StartObstacles returns the obstacles to a start that usually pass by themselves. Only LinkInvalid does not, and leads to a refusal.
func StartObstacles(in Input, w *Changes) []Problem {
	var found []Problem
	if w.Recreate && statefulset.TwoRevisions(in.Set) {
		found = append(found, problem(api.RolloutRunning,
			"a partition keeps pods of an older revision, but a set that is created again loses that revision. Finish the rollout, or undo it"))
	}
	for _, c := range w.Claims {
		switch link, err := api.LoadLink(c); {
		case err != nil:
			found = append(found, problem(api.LinkInvalid, "%v", err))
		case link != nil:
			found = append(found, problem(api.CleaningUp, "claim %s still belongs to operation %s", c.Name, link.Operation))
		case c.Spec.VolumeName == "":
			found = append(found, problem(api.ClaimNotBound, "claim %s has no volume yet. Look at kubectl describe pvc -n %s %s", c.Name,
				c.Namespace, c.Name))
		case in.Volume(c.Spec.VolumeName) == nil:
			found = append(found, problem(api.ClaimNotBound, "volume %s of claim %s does not exist. Restore the volume, or delete the claim if its "+
				"data is no longer needed", c.Spec.VolumeName, c.Name))
		}
	}
	return found
}

// PassesByItself reports whether the problem passes by itself, so that the resize waits and is not refused.
func (p Problem) PassesByItself() bool {
	return p.Reason == api.RolloutRunning || p.Reason == api.CleaningUp || p.Reason == api.ClaimNotBound
}
