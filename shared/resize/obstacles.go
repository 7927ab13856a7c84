package resize

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"

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
	if old := podsToDelete(in); len(old) > 0 && w.stopsMembers() {
		found = append(found, problem(api.RolloutRunning, "the update strategy is OnDelete, and these pods have an older revision of the pod "+
			"template: %s. Wait until the operator of the set has deleted them, which it does not do while it is paused, or delete them one by one",
			strings.Join(old, ", ")))
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

// podsToDelete returns the pods of an OnDelete set that have another revision than their replacements. No member with such a pod is
// stopped, because the stop would also be a rollout.
func podsToDelete(in Input) []string {
	if in.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	var old []string
	for ordinal := statefulset.Start(in.Set); ordinal < statefulset.Start(in.Set)+int(statefulset.Replicas(in.Set)); ordinal++ {
		pod := in.MemberPod(ordinal)
		if pod != nil && statefulset.IsPodOf(pod, in.Set) && in.OtherRevision(pod, ordinal) != "" {
			old = append(old, pod.Name)
		}
	}
	return old
}

// PassesByItself reports whether the problem passes by itself, so that the resize waits and is not refused.
func (p Problem) PassesByItself() bool {
	return p.Reason == api.RolloutRunning || p.Reason == api.CleaningUp || p.Reason == api.ClaimNotBound
}
