package restore

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// claimProtection is the finalizer that Kubernetes puts on a claim. It stays while a pod uses the claim (kubernetes pkg/volume/util,
// PVCProtectionFinalizer).
const claimProtection = "kubernetes.io/pvc-protection"

// pins returns the member's mover pods if all of them are pins, otherwise nil. A pin has finished its copies. It only keeps the volumes
// attached to the node, where the member starts next. Restore deletes claims while pins use them, because a pin does not write. The
// kubelet starts no container on a terminating claim without protection (kubernetes pkg/kubelet/volumemanager/populator,
// getPVCExtractPV). There are no pins in two cases. A claim with access mode ReadWriteOncePod admits no second pod. And if the member gets
// no first pass, its node may refuse to mount a volume in two pods.
func (s swap) pins() []*corev1.Pod {
	if resize.NoFirstPass(s.Observed, s.member) != "" {
		return nil
	}
	pods, jobs := s.MoversOfMember(s.record.Operation, s.member.Ordinal)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || statefulset.Done(pod) || !resize.IsPin(pod) {
			return nil
		}
	}
	for _, job := range jobs { // a Job without a pod will create one
		hasPod := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) })
		if job.DeletionTimestamp != nil || !hasPod {
			return nil
		}
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{s.claim, s.TargetClaim(s.record.Operation, s.move)} {
		if claim != nil && statefulset.OnePodOnly(claim) {
			return nil
		}
	}
	return pods
}

// pinned reports whether the member has pins.
func (s swap) pinned() bool { return len(s.pins()) > 0 }

// heldOnlyByPins reports whether pins are the only pods that use a terminating temporary claim. Call it after the
// deletion: the scheduler places no pod on a terminating claim, so no other pod can start to use it.
func (s swap) heldOnlyByPins(target *corev1.PersistentVolumeClaim) bool {
	pins := s.pins()
	others := slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return statefulset.Mounts(pod, target.Name) &&
			!slices.Contains(pins, pod)
	})
	return len(pins) > 0 && !others && slices.Contains(target.Finalizers, claimProtection) && len(target.Finalizers) == 1
}

// keptOnlyByPins reports whether another process has deleted the claim and only pins keep it from going. The claim is then replaced while
// the lock pod has the member's name. Otherwise, the StatefulSet controller would create an empty claim.
func (s swap) keptOnlyByPins() bool {
	own := s.MemberPod(s.member.Ordinal)
	return s.claim != nil && s.claim.DeletionTimestamp != nil && s.pinned() && (own == nil || own.Spec.NodeName == "")
}

// deletionHolder names the pod or finalizer that keeps a terminating claim.
func deletionHolder(in Input, claim *corev1.PersistentVolumeClaim) string {
	for _, pod := range in.Pods {
		if statefulset.Mounts(pod, claim.Name) {
			return "pod " + pod.Name
		}
	}
	for _, finalizer := range claim.Finalizers {
		if finalizer != claimProtection {
			return "finalizer " + finalizer
		}
	}
	return "claim protection"
}
