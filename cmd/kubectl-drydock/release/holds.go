package release

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// releaseHolds removes the hold from each pod whose member would start on its own data. It returns the other pods in left, with advice.
func releaseHolds(in Input) (actions []plan.Action, left []string) {
	for _, pod := range in.Held {
		switch unbound := in.unboundClaim(pod); {
		case unbound != "":
			left = append(left, fmt.Sprintf("pod %s stays held, because claim %s is not bound: the member would start on an empty volume. "+
				"Install Drydock again and wait until its operation has ended", pod.Name, unbound))
		case resources.IsLockPod(pod) && pod.DeletionTimestamp == nil:
			actions = append(actions, plan.Delete(plan.Pods, pod))
			left = append(left, fmt.Sprintf("pod %s, which reserves the name of a member, is being deleted. Run the command again", pod.Name))
		default:
			patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
			if pod.DeletionTimestamp == nil { // the pod was never stopped and runs
				patch.Unlink()
			}
			actions = append(actions, patch.Actions()...)
		}
	}
	return actions, left
}

// unboundClaim returns an unbound claim of the pod's member, which must not start without it; empty if there is none. A pod that was never
// stopped has its claims. A member beyond the set's replicas, or of a deleted set, does not start.
func (in Input) unboundClaim(pod *corev1.Pod) string {
	if in.Set == nil || pod.DeletionTimestamp == nil && !resources.IsLockPod(pod) {
		return ""
	}
	ordinal, ok := statefulset.ParsePodName(in.Set, pod.Name)
	if span := statefulset.Span(in.Set); !ok || ordinal < span.Start || ordinal >= span.End {
		return "" // the set starts no such member
	}
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(in.Set, template.Name, ordinal)
		if !in.isBound(name) {
			return name
		}
	}
	return ""
}

func (in Input) isBound(name string) bool {
	for _, claim := range in.Claims {
		if claim.Name == name {
			return claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound
		}
	}
	return false
}

// heldWords adds the number of held pods to the message about a set that cannot be released yet.
func (in Input) heldWords() string {
	if len(in.Held) == 0 || in.Holds {
		return ""
	}
	pods := fmt.Sprintf("%d pods", len(in.Held))
	if len(in.Held) == 1 {
		pods = "1 pod"
	}
	return fmt.Sprintf(". It holds %s. If Drydock's functions do not run any more, release what it holds with --holds", pods)
}
