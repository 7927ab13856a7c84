package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// replace removes the finalizers of a claim that restore or another process has deleted, once a volume is reserved for its name.
func (s swap) replace() step {
	if movers := s.endMovers(); len(movers) > 0 {
		return act(movers)
	}
	if why := s.mustStay(); why != "" {
		return wait("%s", why)
	}
	chosen, size := s.old, api.Target{}
	if s.old != nil {
		size.Size = fits(s.claim, s.old)
	}
	if s.goesOn() {
		chosen, size = s.new, s.move.Target()
		if free, done := s.free(); !done || len(free.actions) > 0 {
			return free // another process may have deleted the claim before begin
		}
	} else if back := s.withdraw(); len(back) > 0 {
		return act(back)
	}
	switch {
	case chosen == nil:
		return wait("volume %s of claim %s does not exist any more", s.move.OldVolume, s.claim.Name)
	case s.reserved() != chosen:
		return s.reserve(chosen, size)
	case chosen.Spec.ClaimRef.UID != "": // the successor itself is being deleted
		return s.renew(chosen)
	case chosen.Status.Phase != corev1.VolumeAvailable:
		return wait("volume %s is not seen to be reserved yet", chosen.Name)
	}
	if guard, needed := s.guard(); needed {
		return guard
	}
	if mark := s.mark(); !mark.Empty() {
		return act(mark.Actions())
	}
	gone := plan.PatchOf(plan.Claims, s.claim).RemoveFinalizers(claimProtection, api.SwitchFinalizer).Actions()
	return act(append(gone, s.create().actions...))
}

// mustStay says why the claim, which is being deleted, must not go yet; empty if it may.
func (s swap) mustStay() string {
	if user := s.otherUser(); user != "" {
		return fmt.Sprintf("claim %s is being deleted and pod %s uses it", s.claim.Name, user)
	}
	for _, finalizer := range s.claim.Finalizers {
		if finalizer != api.SwitchFinalizer && finalizer != claimProtection {
			return fmt.Sprintf("claim %s has the finalizer %s: %s", s.claim.Name, finalizer, statefulset.FinalizerHint(finalizer))
		}
	}
	if other := s.first(); other != "" {
		return fmt.Sprintf("claim %s is deleted before %s is created again", other, s.claim.Name)
	}
	return ""
}

// mark links a claim that is being deleted to the operation. A claim that the StatefulSet controller has created has no link yet, and
// Drydock's fence refuses to take the protection off a claim without one.
func (s swap) mark() *plan.Patch {
	patch := plan.PatchOf(plan.Claims, s.claim)
	if linked(s.claim.Labels, s.record.Operation) || slices.Contains(s.claim.Finalizers, api.SwitchFinalizer) {
		return patch
	}
	return patch.Link(s.successor())
}

// goesOn reports whether a claim that is being deleted gets the new volume. A claim that was on the new volume already must get it back:
// the member may have written to it.
func (s swap) goesOn() bool {
	return s.whole && (s.held || s.returns) ||
		s.new != nil && s.claim != nil && s.claim.Spec.VolumeName == s.new.Name && !s.misplaced()
}

// guard keeps the StatefulSet controller from creating an empty claim while the name has none. The controller creates claims for a member
// without a pod, or with a pod that has not started (kubernetes pkg/controller/statefulset, processReplica). So if another process has
// taken the hold off, the member's name is locked first.
func (s swap) guard() (step, bool) {
	pod := s.MemberPod(s.member.Ordinal)
	switch {
	case !s.Wants(s.member.Ordinal):
		return step{}, false
	case pod == nil:
		return act([]plan.Action{plan.Create(plan.Pods, resources.MakeLock(s.Set, s.record.Operation, s.member.Ordinal, s.Settings))}), true
	case statefulset.Held(pod):
		return step{}, false
	case pod.DeletionTimestamp != nil:
		return wait("pod %s is ending", pod.Name), true
	case !statefulset.Started(pod):
		return act([]plan.Action{plan.Evict(pod)}), true // the fence lets restore delete held pods only
	}
	return step{}, false
}

// otherUser returns the name of a pod that uses the claim, other than the held pod and the pins; empty if there is none. Where the claim
// stays on its volume, the member's own pod does not matter: it runs on that volume, or has not started.
func (s swap) otherUser() string {
	stays := s.old != nil && s.claim.Spec.VolumeName == s.old.Name && !s.goesOn() || s.new != nil && s.claim.Spec.VolumeName == s.new.Name
	own, pins := s.MemberPod(s.member.Ordinal), s.pins()
	for _, pod := range s.Pods {
		harmless := pod.UID == s.member.Pod && statefulset.Held(pod) || slices.Contains(pins, pod)
		if statefulset.Mounts(pod, s.claim.Name) && pod.Spec.NodeName != "" && !harmless && !(stays && pod == own) {
			return pod.Name
		}
	}
	return ""
}
