package resize

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// IsPin reports whether the copy in a mover's pod has succeeded. From then on, the pod only keeps the volumes attached and writes to none
// of them: the kubelet never runs a succeeded init container again.
func IsPin(pod *corev1.Pod) bool { return succeeded(pod, moverreport.FinalContainer) }

// WaitsForStop reports whether the mover in the pod has made its first passes and waits beside the member for its stop.
func WaitsForStop(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && succeeded(pod, moverreport.FirstContainer) &&
		slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == moverreport.FinalContainer && c.State.Running != nil
		})
}

// LacksFirstPass reports whether a member that waits to be stopped has no mover, although a mover could copy beside its pod. The member had
// no pod when it was handed to restore. In contrast, a member whose mover found no room has the node of its pod in the record.
func LacksFirstPass(o *world.Observed, member *api.Member) bool {
	return member.Pod == "" && member.Node == "" && o.MemberPod(member.Ordinal) != nil && NoFirstPass(o, member) == ""
}

// NoFirstPass returns why no mover can copy while the member's pod runs. It is empty if one can. Such a member is copied after it has
// stopped, and its mover does not stay to keep the volumes attached, because the new pod could not mount them beside it.
func NoFirstPass(o *world.Observed, member *api.Member) string {
	if o.Set != nil && o.Set.Annotations[api.FirstPassAnnotation] == api.FirstPassOff { // a lost set is nil: its operation is undone
		return api.FirstPassAnnotation + "=" + api.FirstPassOff
	}
	node := member.Node // where it was copied, if its present pod has no node
	if pod := o.MemberPod(member.Ordinal); pod != nil && pod.Spec.NodeName != "" {
		node = pod.Spec.NodeName
	}
	if member.RefusingNode != "" && (node == "" || node == member.RefusingNode) {
		return "node " + member.RefusingNode + " cannot attach or mount its volumes for a second pod"
	}
	for _, move := range member.Claims {
		if claim := o.Claim(move.Claim); claim != nil && statefulset.OnePodOnly(claim) {
			return "ReadWriteOncePod: no second pod may use claim " + move.Claim
		}
	}
	return ""
}

// CopyRate is the assumed rate of a copy with its verification, in bytes per second for each claim.
const CopyRate = 100e6

// WholeCopy returns how long the copy of the member's claims takes if they are full, in whole minutes.
func WholeCopy(member *api.Member) time.Duration {
	return time.Duration(math.Ceil(wholeCopy(member).Minutes())) * time.Minute
}

// wholeCopy returns how long the copy of the member's claims takes if they are full.
func wholeCopy(member *api.Member) time.Duration {
	bytes := int64(0)
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved && !move.InPlace {
			bytes += move.From.Value()
		}
	}
	return time.Duration(float64(bytes) / CopyRate * float64(time.Second))
}

// StopTooShort reports whether the stop of a member without a first pass may be cancelled before its copy is complete, and returns
// max-stop. A stop is cancelled after twice that time.
func StopTooShort(set *appsv1.StatefulSet, strategy api.Strategy, member *api.Member) (limit time.Duration, short bool) {
	limit, _ = api.MaxStop(set, strategy) // the preflight refuses an invalid value
	return limit, limit > 0 && wholeCopy(member)/2 > limit
}

// succeeded reports whether the init container ended with exit code 0.
func succeeded(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && c.State.Terminated != nil && c.State.Terminated.ExitCode == moverreport.CodeOK
	})
}
