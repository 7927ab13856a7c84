package release

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// releaseHolds takes the hold off every pod whose member would start on its own data. The others are left, each with what to do.
func releaseHolds(in Input) (actions []plan.Action, left []string) {
	for _, pod := range in.Held {
		switch unbound := in.unbound(pod); {
		case unbound != "":
			left = append(left, fmt.Sprintf("pod %s stays held, because claim %s is not bound: the member would start on an empty volume. Install "+
				"Drydock again and wait for "+
				"the end of its operation", pod.Name, unbound))
		case resources.LocksName(pod) && pod.DeletionTimestamp == nil:
			actions = append(actions, plan.Delete(plan.Pods, pod))
			left = append(left, fmt.Sprintf("pod %s, which keeps the name of a member, is being deleted; run the command again", pod.Name))
		default:
			patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
			if pod.DeletionTimestamp == nil { // it was not told to stop, and runs
				patch.Unlink()
			}
			actions = append(actions, patch.Actions()...)
		}
	}
	return actions, left
}

// unbound returns a claim without which the pod's member must not start again; empty if there is none. A pod that was never told to stop
// has its claims, and a member that the set does not ask for, or whose set is gone, does not start.
func (in Input) unbound(pod *corev1.Pod) string {
	if in.Set == nil || pod.DeletionTimestamp == nil && !resources.LocksName(pod) {
		return ""
	}
	ordinal, ok := statefulset.ParsePodName(in.Set, pod.Name)
	if span := statefulset.Span(in.Set); !ok || ordinal < span.Start || ordinal >= span.End {
		return "" // the set does not ask for it
	}
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(in.Set, template.Name, ordinal)
		if !in.bound(name) {
			return name
		}
	}
	return ""
}

func (in Input) bound(name string) bool {
	for _, claim := range in.Claims {
		if claim.Name == name {
			return claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound
		}
	}
	return false
}

// heldWords counts the pods that are held, for a set that cannot be released yet.
func (in Input) heldWords() string {
	if len(in.Held) == 0 || in.Holds {
		return ""
	}
	return fmt.Sprintf(". %d pods are held for it; where no function of Drydock works any more, release them with --holds", len(in.Held))
}
