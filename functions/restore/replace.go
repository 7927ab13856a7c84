package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// finishDeletion removes the finalizers of a terminating claim once a volume is reserved for its name. Restore or another process has
// deleted the claim.
func (s swap) finishDeletion() step {
	if movers := s.endMovers(); len(movers) > 0 {
		return act(movers)
	}
	if why := s.deletionBlocker(); why != "" {
		return wait("%s", why)
	}
	chosen, size := s.old, api.Target{}
	if s.old != nil {
		size.Size = fittingSize(s.claim, s.old)
	}
	if s.getsNewVolume() {
		chosen, size = s.new, s.move.Target()
		if freeing, done := s.freeNew(); !done || len(freeing.actions) > 0 {
			return freeing // begin has not done it if another process deleted the claim
		}
	} else if back := s.withdrawReservation(); len(back) > 0 {
		return act(back)
	}
	switch {
	case chosen == nil:
		return wait("volume %s of claim %s no longer exists", s.move.OldVolume, s.claim.Name)
	case s.reservedVolume() != chosen:
		return s.reserve(chosen, size)
	case chosen.Spec.ClaimRef.UID != "": // the successor itself is being deleted
		return s.reserveAgain(chosen)
	case chosen.Status.Phase != corev1.VolumeAvailable:
		return wait("the volume controller has not seen the reservation of volume %s yet", chosen.Name)
	}
	if lock, needed := s.lockName(); needed {
		return lock
	}
	if link := s.linkToOperation(); !link.Empty() {
		return act(link.Actions())
	}
	removal := plan.PatchOf(plan.Claims, s.claim).RemoveFinalizers(claimProtection, api.FreezeFinalizer).Actions()
	return act(append(removal, s.create().actions...))
}

// deletionBlocker returns why the terminating claim must not disappear yet, or empty if it may.
func (s swap) deletionBlocker() string {
	if user := s.otherUser(); user != "" {
		return fmt.Sprintf("claim %s is being deleted, but pod %s uses it", s.claim.Name, user)
	}
	for _, finalizer := range s.claim.Finalizers {
		if finalizer != api.FreezeFinalizer && finalizer != claimProtection {
			return fmt.Sprintf("claim %s has the finalizer %s: %s", s.claim.Name, finalizer, statefulset.FinalizerHint(finalizer))
		}
	}
	if other := s.claimToDeleteFirst(); other != "" {
		return fmt.Sprintf("claim %s must be deleted before claim %s is created again", other, s.claim.Name)
	}
	return ""
}

// linkToOperation links a terminating claim to the operation. A claim that the StatefulSet controller created has no link yet, and
// Drydock's fence allows the removal of the protection only from a linked claim.
func (s swap) linkToOperation() *plan.Patch {
	patch := plan.PatchOf(plan.Claims, s.claim)
	if linked(s.claim.Labels, s.record.Operation) || slices.Contains(s.claim.Finalizers, api.FreezeFinalizer) {
		return patch
	}
	return patch.Link(s.successor())
}

// lockName keeps the StatefulSet controller from creating an empty claim while no claim has the name. The controller creates claims for a
// member without a pod, or with a pod that has not started (kubernetes pkg/controller/statefulset, processReplica). So if another process
// has removed the hold, the member's name is locked first. It reports whether that step is needed.
func (s swap) lockName() (step, bool) {
	pod := s.MemberPod(s.member.Ordinal)
	switch {
	case !s.Wants(s.member.Ordinal):
		return step{}, false
	case pod == nil:
		return act([]plan.Action{plan.Create(plan.Pods, resources.MakeLock(s.Set, s.record.Operation, s.member.Ordinal, s.Settings))}), true
	case statefulset.Held(pod):
		return step{}, false
	case pod.DeletionTimestamp != nil:
		return wait("pod %s is terminating", pod.Name), true
	case !statefulset.Started(pod):
		return act([]plan.Action{plan.Evict(pod)}), true // the fence lets restore delete held pods only
	}
	return step{}, false
}

// otherUser returns the name of a pod that uses the claim, other than the held pod and the pins; empty if there is none. Where the claim
// stays on its volume, the member's own pod does not count: it runs on that volume or has not started.
func (s swap) otherUser() string {
	stays := s.old != nil && s.claim.Spec.VolumeName == s.old.Name && !s.getsNewVolume() || s.new != nil &&
		s.claim.Spec.VolumeName == s.new.Name
	own, pins := s.MemberPod(s.member.Ordinal), s.pins()
	for _, pod := range s.Pods {
		harmless := pod.UID == s.member.Pod && statefulset.Held(pod) || slices.Contains(pins, pod)
		if statefulset.Mounts(pod, s.claim.Name) && pod.Spec.NodeName != "" && !harmless && !(stays && pod == own) {
			return pod.Name
		}
	}
	return ""
}

// claimToDeleteFirst returns a claim of the member that must be deleted before this one may be bound to its old volume, or empty.
func (s swap) claimToDeleteFirst() string {
	if !s.rollback || !s.memberPartial || !s.getsNewVolume() {
		return ""
	}
	for i := range s.member.Claims {
		if move := s.member.Claims[i]; !s.leavesVolume(move) {
			return move.Claim
		}
	}
	return ""
}

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
