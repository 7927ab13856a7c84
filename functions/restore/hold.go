package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// maxStops is how often a member is stopped in one operation: again because its hold was lost, or the stop took too long.
const maxStops = 4

// hold stops a member: first the finalizer, which keeps the pod's object, then the eviction. The next event repeats each of them that was
// not carried out.
func (w *work) hold(member *api.Member) {
	member.Held, member.Checked, member.FinalTries = operation.Moment(w.Now), nil, 0
	member.Stops++
	w.enter(member, api.MemberStopping)
	w.reason = api.Quiescing
	pod := w.MemberPod(member.Ordinal)
	if pod == nil {
		lock := resources.MakeLock(w.Set, w.record.Operation, member.Ordinal, w.Settings)
		member.Locked = true
		w.do(api.Quiescing, plan.Create(plan.Pods, lock))
		return
	}
	member.Pod, member.Node = pod.UID, pod.Spec.NodeName
	if w.record.Strategy == api.StrategyRolling {
		w.tries = append(w.tries, plan.TryEvict(pod)) // a refusal is found before anything is written
	}
	w.do(api.Quiescing, w.holdPod(member, pod)...)
	w.tellToStop(member, pod)
}

// holdPod puts the finalizer on the pod.
func (w *work) holdPod(member *api.Member, pod *corev1.Pod) []plan.Action {
	link := api.Link{Operation: w.record.Operation, Role: api.RoleHeld, Namespace: w.Set.Namespace, Set: w.record.Set, Member: &member.Ordinal}
	return plan.PatchOf(plan.Pods, pod).Link(link).AddFinalizer(api.HoldFinalizer).Actions()
}

// stopping tells a held member to stop, and waits for the proof that it has.
func (w *work) stopping(member *api.Member) {
	pod := w.MemberPod(member.Ordinal)
	if member.Locked {
		w.locking(member, pod)
		return
	}
	switch {
	case pod == nil || pod.UID != member.Pod:
		w.lost(member, fmt.Sprintf("pod %s-%d was replaced while it was being stopped", w.Name, member.Ordinal))
	case !statefulset.Held(pod) && pod.DeletionTimestamp != nil:
		w.lost(member, fmt.Sprintf("pod %s was deleted before it was held", pod.Name)) // it accepts no finalizer any more
	case !statefulset.Held(pod):
		w.do(api.Quiescing, w.holdPod(member, pod)...)
	case w.tooLong(member):
		w.giveBack(fmt.Sprintf("the stop of pod %s was not proven in time: %s", pod.Name, w.MayWrite(member, pod)))
	case pod.DeletionTimestamp == nil:
		w.tellToStop(member, pod)
	default:
		w.awaitStop(member, pod)
	}
}

// tellToStop evicts the pod in a rolling resize. Where all members stop together, it deletes the pod: a PodDisruptionBudget would allow no
// such stop, and the user has asked for it. In an OrderedReady set, the highest ordinal ends first.
func (w *work) tellToStop(member *api.Member, pod *corev1.Pod) {
	if w.Budget != "" {
		w.giveBack("a PodDisruptionBudget does not allow it: " + w.Budget)
		return
	}
	if w.record.Strategy == api.StrategyRolling {
		if why := w.Unsteady(member.Ordinal); why != "" {
			w.giveBack(why)
			return
		}
		switch why, known := w.behind(w.othersOf(member.Ordinal)...); {
		case !known:
			return
		case why != "":
			w.giveBack(why)
			return
		}
		w.do(api.Quiescing, plan.Evict(pod))
		return
	}
	if first := w.stopsBefore(member); first != nil {
		w.waitFor(false, "pod %s-%d stops before %s", w.Name, first.Ordinal, pod.Name)
		return
	}
	w.do(api.Quiescing, plan.Stop(pod))
}

// stopsBefore is a member that has to have stopped before this one is told to; nil if there is none.
func (w *work) stopsBefore(member *api.Member) *api.Member {
	if !statefulset.Ordered(w.Set) {
		return nil
	}
	for i := range w.record.Members {
		if m := &w.record.Members[i]; m.Ordinal > member.Ordinal && m.Phase == api.MemberStopping && !m.Locked {
			return m
		}
	}
	return nil
}

// stopAbove counts the members that end one after the other before this one does.
func (w *work) stopAbove(member *api.Member) int {
	n := 0
	for _, m := range w.record.Members {
		if statefulset.Ordered(w.Set) && m.Ordinal > member.Ordinal && m.Phase != api.MemberMoved {
			n++
		}
	}
	return n
}

// awaitStop hands a member that has stopped to backup.
func (w *work) awaitStop(member *api.Member, pod *corev1.Pod) {
	if w.interrupted(member) {
		return
	}
	if why := w.MayWrite(member, pod); why != "" {
		w.waitFor(statefulset.Done(pod), "%s", why) // of the end of its pod an event comes
		return
	}
	w.stopped(member)
}

// stopped notes that nothing writes to the member's volumes any more.
func (w *work) stopped(member *api.Member) {
	if member.Stopped == nil {
		member.Stopped = operation.Moment(w.Now)
	}
	w.reason = api.CopyRunning
	switch {
	case w.record.IsRollback(): // nothing is copied
		w.swapTogether(member)
		return
	case w.record.GrowsHeld():
		w.reason = api.ExpansionRunning
		w.enter(member, api.MemberGrowing)
		return
	}
	w.enter(member, api.MemberFinalPass)
	w.announce = events.MemberChanged
}

// swapTogether begins with the claims of a member in a rollback: where all members stop together, only when all of them have. Otherwise,
// a member that cannot be stopped would go on with newer data than the others.
func (w *work) swapTogether(member *api.Member) {
	if w.record.Strategy != api.StrategyWhole {
		w.enter(member, api.MemberSwapping)
		return
	}
	for i := range w.record.Members {
		switch other := &w.record.Members[i]; other.Phase {
		case api.MemberPending, api.MemberCopying, api.MemberWaiting:
			w.waitFor(false, "pod %s-%d is to be stopped as well", w.Name, other.Ordinal)
			return
		case api.MemberStopping:
			if other.Stopped == nil {
				w.waitFor(true, "pod %s-%d is to be stopped as well", w.Name, other.Ordinal)
				return
			}
		}
	}
	for i := range w.record.Members {
		if other := &w.record.Members[i]; other.Phase == api.MemberStopping {
			w.enter(other, api.MemberSwapping)
		}
	}
}

// locking waits until the name of a member without a pod is taken and nothing uses its claims.
func (w *work) locking(member *api.Member, pod *corev1.Pod) {
	switch {
	case pod == nil && w.tooLong(member):
		w.giveBack(fmt.Sprintf("the name of pod %s-%d could not be taken", w.Name, member.Ordinal))
	case pod == nil:
		w.do(api.Quiescing, plan.Create(plan.Pods, resources.MakeLock(w.Set, w.record.Operation, member.Ordinal, w.Settings)))
	case !resources.IsLock(pod, w.record.Operation):
		w.lost(member, fmt.Sprintf("pod %s was started before its name could be locked", pod.Name))
	default:
		why := w.inUse(member)
		switch {
		case why == "":
			member.Pod = pod.UID
			w.stopped(member)
		case w.tooLong(member): // the lock must not keep a scale-up waiting
			w.giveBack(why)
		default:
			w.waitFor(true, "%s", why)
		}
	}
}

// inUse says what still uses a claim of a member without a pod; empty if nothing does.
func (w *work) inUse(member *api.Member) string {
	for _, move := range member.Claims {
		if users := w.Users(move.Claim); len(users) > 0 {
			return fmt.Sprintf("pod %s uses claim %s", users[0].Name, move.Claim)
		}
		if w.Attached(move.OldVolume) {
			return fmt.Sprintf("volume %s is still attached to a node", move.OldVolume)
		}
	}
	return ""
}

// tooLong reports whether the member has been held for longer than it may be.
func (w *work) tooLong(member *api.Member) bool {
	return operation.Past(member.Deadline, w.Now)
}

// deadline is when a member's phase is given up.
func (w *work) deadline(member *api.Member, phase api.MemberPhase) *metav1.Time {
	var after time.Duration
	limit, _ := api.MaxStop(w.Set, w.record.Strategy)
	switch phase {
	case api.MemberStopping:
		after = w.Settings.QuiesceTimeout + time.Duration(1+w.stopAbove(member))*statefulset.GracePeriod(w.Set)
		if w.record.Strategy == api.StrategyRolling { // the others wait for it
			after = limit + statefulset.GracePeriod(w.Set)
		}
	case api.MemberFinalPass:
		if after = 2 * limit; limit == 0 {
			return w.record.Deadline
		}
	case api.MemberSwapping, api.MemberGrowing:
		after = w.Settings.SwitchTimeout
	case api.MemberStarting:
		after = w.Settings.ReadyTimeout
	default:
		return nil
	}
	return operation.Moment(w.Now.Add(after))
}
