package restore

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// stopping stops a member, holds its pod, and cancels the stop.
type stopping struct{ *work }

func (w *work) stopping() stopping { return stopping{w} }

// stopMember stops a member: the finalizer first, which keeps the pod's object, then the eviction. The next event repeats a write that
// was not carried out.
func (s stopping) stopMember(member *api.Member) {
	member.HeldAt, member.CheckedAt, member.FinalTries = operation.Moment(s.Now), nil, 0
	member.Stops++
	s.enterPhase(member, api.MemberStopping)
	s.Reason = api.Quiescing
	pod := s.MemberPod(member.Ordinal)
	if pod == nil {
		lock := resources.MakeLock(s.Set, s.Record.Operation, member.Ordinal, s.Settings)
		member.Locked = true
		s.Do(api.Quiescing, plan.Create(plan.Pods, lock))
		return
	}
	member.Pod, member.Node = pod.UID, pod.Spec.NodeName
	if s.Record.Strategy == api.StrategyRolling {
		s.dryRuns = append(s.dryRuns, plan.TryEvict(pod)) // so a refusal is known before anything is written
	}
	s.Do(api.Quiescing, s.holdActions(member, pod)...)
	s.endPod(member, pod)
}

// holdActions returns the patch that puts the hold's finalizer and link on the pod.
func (s stopping) holdActions(member *api.Member, pod *corev1.Pod) []plan.Action {
	link := s.Record.Link(api.RoleHeld, s.Set.Namespace).OfMember(member.Ordinal)
	return plan.PatchOf(plan.Pods, pod).Link(link).AddFinalizer(api.HoldFinalizer).Actions()
}

// handleStopping evicts or deletes the pod of a held member, and waits for the proof that it has stopped.
func (s stopping) handleStopping(member *api.Member) {
	pod := s.MemberPod(member.Ordinal)
	if member.Locked {
		s.awaitLock(member, pod)
		return
	}
	switch {
	case pod == nil || pod.UID != member.Pod:
		s.handleLostHold(member, fmt.Sprintf("pod %s-%d was replaced while it was being stopped", s.Name, member.Ordinal))
	case !statefulset.Held(pod) && pod.DeletionTimestamp != nil:
		// a terminating pod accepts no new finalizer
		s.handleLostHold(member, fmt.Sprintf("pod %s was deleted before it was held", pod.Name))
	case !statefulset.Held(pod) && s.Rejected != "" && s.pastDeadline(member): // members that have stopped would wait for this one
		s.override = revert(s.Input, s.Before, api.Rejected, fmt.Sprintf("the API server rejects the finalizer that holds pod %s: %s. Fix that, "+
			"then %s", pod.Name, s.Rejected, operation.HowToRetry(s.Namespace, s.Before)))
	case !statefulset.Held(pod):
		s.Do(api.Quiescing, s.holdActions(member, pod)...)
	case s.pastDeadline(member):
		why := fmt.Sprintf("pod %s has stopped, but another member did not stop in time", pod.Name)
		if writes := s.MayWrite(member, pod); writes != "" {
			why = fmt.Sprintf("the stop of pod %s was not proven in time: %s", pod.Name, writes)
		}
		s.cancelStops(why)
	case pod.DeletionTimestamp == nil:
		s.endPod(member, pod)
	default:
		s.awaitStop(member, pod)
	}
}

// endPod evicts the pod in a rolling resize. Where all members stop together, it deletes the pod, because the user requested that stop
// and a PodDisruptionBudget would forbid it. In an OrderedReady set, the highest ordinal ends first.
func (s stopping) endPod(member *api.Member, pod *corev1.Pod) {
	if s.BudgetRefusal != "" {
		s.cancelStops("a PodDisruptionBudget does not allow it: " + s.BudgetRefusal)
		return
	}
	if s.Record.Strategy == api.StrategyRolling {
		if why := s.WhyUnsteady(member.Ordinal); why != "" {
			s.cancelStops(why)
			return
		}
		switch why, known := s.gate().memberLag(s.otherPods(member.Ordinal)...); {
		case !known:
			return
		case why != "":
			s.cancelStops(why)
			return
		}
		s.Do(api.Quiescing, plan.Evict(pod))
		return
	}
	if other := s.memberToLock(); other != nil {
		s.WaitFor(true, "the name of pod %s-%d is locked before %s stops", s.Name, other.Ordinal, pod.Name)
		return
	}
	if first := s.memberToStopFirst(member); first != nil {
		s.WaitFor(false, "pod %s-%d stops before %s", s.Name, first.Ordinal, pod.Name)
		return
	}
	s.Do(api.Quiescing, plan.Stop(pod))
}

// memberToLock returns a member that stops with the others and whose lock does not exist yet, or nil. The API server may reject the lock,
// and then no pod may have been stopped for it.
func (s stopping) memberToLock() *api.Member {
	for i := range s.Record.Members {
		if m := &s.Record.Members[i]; m.Locked && m.Phase == api.MemberStopping && s.MemberPod(m.Ordinal) == nil {
			return m
		}
	}
	return nil
}

// memberToStopFirst returns a member that must have stopped before this one may, or nil.
func (s stopping) memberToStopFirst(member *api.Member) *api.Member {
	if !statefulset.Ordered(s.Set) {
		return nil
	}
	for i := range s.Record.Members {
		if m := &s.Record.Members[i]; m.Ordinal > member.Ordinal && m.Phase == api.MemberStopping && m.StoppedAt == nil && !m.Locked {
			return m
		}
	}
	return nil
}

// awaitStop hands a stopped member to backup.
func (s stopping) awaitStop(member *api.Member, pod *corev1.Pod) {
	if s.interruptedByLoss(member) {
		return
	}
	if why := s.MayWrite(member, pod); why != "" {
		s.WaitFor(statefulset.Done(pod), "%s", why) // the end of the pod sends an event
		return
	}
	s.markStopped(member)
}

// markStopped records that nothing writes to the member's volumes any more.
func (s stopping) markStopped(member *api.Member) {
	if member.StoppedAt == nil {
		member.StoppedAt = operation.Moment(s.Now)
	}
	s.Reason = api.CopyRunning
	switch next := s.Record.AfterStop(); next {
	case api.MemberSwapping:
		s.enterSwap(member)
	case api.MemberGrowing:
		s.Reason = api.ExpansionRunning
		s.enterPhase(member, next)
	default:
		s.enterPhase(member, next)
		s.Announce = events.MemberChanged
	}
}

// enterSwap begins the swap of a member in a rollback. Where all members stop together, it waits until all have stopped. Otherwise, a
// member that cannot be stopped would continue with newer data than the others.
func (s stopping) enterSwap(member *api.Member) {
	if s.Record.Strategy != api.StrategyWhole {
		s.enterPhase(member, api.MemberSwapping)
		return
	}
	for i := range s.Record.Members {
		switch other := &s.Record.Members[i]; other.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			s.WaitFor(false, "pod %s-%d must stop as well", s.Name, other.Ordinal)
			return
		case api.MemberStopping:
			if other.StoppedAt == nil {
				s.WaitFor(true, "pod %s-%d must stop as well", s.Name, other.Ordinal)
				return
			}
		}
	}
	for i := range s.Record.Members {
		if other := &s.Record.Members[i]; other.Phase == api.MemberStopping {
			s.enterPhase(other, api.MemberSwapping)
		}
	}
}

// awaitLock waits until the name of a member without a pod is locked and nothing uses its claims.
func (s stopping) awaitLock(member *api.Member, pod *corev1.Pod) {
	switch {
	case pod == nil && s.pastDeadline(member) && cmp.Or(s.Rejected, s.WriteFailed) != "":
		s.cancelStops(fmt.Sprintf("the API server does not create the pod that locks the name of pod %s-%d: %s", s.Name, member.Ordinal,
			cmp.Or(s.Rejected, s.WriteFailed)))
	case pod == nil:
		s.Do(api.Quiescing, plan.Create(plan.Pods, resources.MakeLock(s.Set, s.Record.Operation, member.Ordinal, s.Settings)))
	case !resources.IsHeldLockOf(pod, s.Record.Operation):
		s.handleLostHold(member, fmt.Sprintf("pod %s was started before its name could be locked", pod.Name))
	default:
		why := s.claimUse(member)
		switch {
		case why == "":
			member.Pod = pod.UID
			s.markStopped(member)
		case s.pastDeadline(member): // the lock must not delay a scale-up
			s.cancelStops(why)
		default:
			s.WaitFor(true, "%s", why)
		}
	}
}

// claimUse returns what still uses a claim of a member without a pod, or empty.
func (s stopping) claimUse(member *api.Member) string {
	for _, move := range member.Claims {
		if users := s.Users(move.Claim); len(users) > 0 {
			return fmt.Sprintf("pod %s uses claim %s", users[0].Name, move.Claim)
		}
		if s.Attached(move.OldVolume) {
			return fmt.Sprintf("volume %s is still attached to a node", move.OldVolume)
		}
	}
	return ""
}

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
