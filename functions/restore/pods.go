package restore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// heldPod returns the member's pod that was held for this stop, or nil if it is gone or no longer held.
func (in Input) heldPod(member *api.Member) *corev1.Pod {
	pod := in.MemberPod(member.Ordinal)
	if pod == nil || pod.UID != member.Pod || !statefulset.Held(pod) {
		return nil
	}
	return pod
}

// blocksStart reports whether the pod keeps its member from being started: it is held, or it is a lock with or without its finalizer.
func blocksStart(pod *corev1.Pod) bool {
	return statefulset.Held(pod) || pod != nil && pod.DeletionTimestamp == nil && resources.IsLockPod(pod)
}

// mustStayHeld reports whether a pod must keep its hold a little longer although it may be released. A pod that was deleted by force
// loses its object as soon as the finalizer is gone. The StatefulSet controller would then start a process on the same volumes while the
// node still ends the old one. Restore does not wait for a node that does not report: with a forced deletion, the user takes
// responsibility for it.
func (in Input) mustStayHeld(pod *corev1.Pod) bool {
	forced := pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	if !forced || !statefulset.Held(pod) || in.Now.Sub(pod.DeletionTimestamp.Time) > in.Settings.QuiesceTimeout {
		return false
	}
	node := in.Nodes[pod.Spec.NodeName]
	return node != nil && statefulset.NodeReady(node) && statefulset.WhyNotStopped(pod, node) != ""
}

// release takes the hold off a pod. A lock is deleted while it still has the finalizer, because the fence lets restore delete only such
// pods.
func release(pod *corev1.Pod) []plan.Action {
	switch {
	case pod.DeletionTimestamp == nil && resources.IsLockPod(pod) && statefulset.Held(pod):
		return []plan.Action{plan.Delete(plan.Pods, pod)}
	case pod.DeletionTimestamp == nil && resources.IsLockPod(pod):
		return []plan.Action{plan.Evict(pod)}
	}
	patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
	if pod.DeletionTimestamp == nil { // the pod was not told to stop, so it keeps running
		patch.Unlink()
	}
	return patch.Actions()
}

// foreignPod returns a pod, other than the member's own pod and its movers, that uses the member's claim; nil if there is none. A pod
// that has ended counts, too, because it may have written to the volume after the copy.
func (in Input) foreignPod(record *api.Resize, own types.UID, move *api.Move) *corev1.Pod {
	for _, pod := range in.Pods {
		if statefulset.Mounts(pod, move.Claim) && pod.UID != own && pod.Spec.NodeName != "" &&
			!statefulset.IsMoverOf(pod, record.Operation) {
			return pod
		}
	}
	return nil
}
