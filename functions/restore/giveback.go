package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// finalPass looks after a member while backup has it copied.
func (w *work) finalPass(member *api.Member) {
	switch {
	case w.heldPod(member) == nil:
		w.lost(member, fmt.Sprintf("pod %s-%d was not held any more while it was copied", w.Name, member.Ordinal))
	case w.tooLong(member):
		w.giveBack(fmt.Sprintf("the final pass of pod %s-%d took longer than twice %s", w.Name, member.Ordinal, api.MaxStopAnnotation))
	case !w.interrupted(member):
		w.waitFor(false, "the final pass of pod %s-%d", w.Name, member.Ordinal)
	}
}

// interrupted gives a held member back when another member is lost: the set needs it, and an OrderedReady set starts no pod above an
// ordinal that is not ready.
func (w *work) interrupted(member *api.Member) bool {
	if w.record.Strategy != api.StrategyRolling || member.Locked {
		return false
	}
	why := w.Lost(member.Ordinal)
	if why != "" {
		w.giveBack(why)
	}
	return why != ""
}

// lost has a member copied again after another process has started its pod: the copy may be stale.
func (w *work) lost(member *api.Member, why string) {
	w.giveBack(why)
	w.again(member)
}

// giveBack releases every member that is held and not being swapped, so that all of them start again on the volumes that they had.
func (w *work) giveBack(why string) {
	if w.stoppedTooOften() {
		w.given = w.stoppedForNothing(why)
		return
	}
	var back []string
	for i := range w.record.Members {
		member := &w.record.Members[i]
		if !givesBack(member) {
			continue
		}
		back = append(back, fmt.Sprintf("pod %s-%d starts again on its %s volumes after stop %d of at most %d", w.Name, member.Ordinal,
			formerVolumes(w.record), member.Stops, maxStops))
		if pod := w.MemberPod(member.Ordinal); pod != nil && (pod.UID == member.Pod || member.Locked) {
			w.spare(pod)
			if !w.dying(pod) { // else staleHolds releases it
				w.do(api.StartedByOthers, release(pod)...)
			}
		}
		w.again(member)
	}
	if more := len(back) - 1; more > 0 {
		back[0] += fmt.Sprintf(", and %d more members", more)
	}
	w.say(true, api.StartedByOthers, "%s: %s", back[0], why)
	w.announce = events.MemberChanged
}

// spare drops the writes to the pod that this look has planned before it was given back: a member that comes first in the record is held,
// or told to stop, before it is found that another one is lost.
func (w *work) spare(pod *corev1.Pod) {
	w.actions = slices.DeleteFunc(w.actions, func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == pod.Name })
}

// stoppedForNothing gives the operation up: one more stop would not help.
func (w *work) stoppedForNothing(why string) plan.Plan {
	return revert(w.Input, w.before, api.StartedByOthers, fmt.Sprintf("a member was stopped %d times and could not be moved: %s; %s",
		maxStops, why, operation.AskAgain(w.before)))
}

// stoppedTooOften reports whether a member that is held has no stop left.
func (w *work) stoppedTooOften() bool {
	return slices.ContainsFunc(w.record.Members, func(m api.Member) bool {
		return m.Stops >= maxStops && givesBack(&m)
	})
}

// again has a member copied once more, since its verified copy may be stale.
func (w *work) again(member *api.Member) {
	if member.Phase == api.MemberCopying || !w.record.Copies() && member.Phase == api.MemberWaiting {
		return
	}
	// The final pass may have finished: no mover writes to such a volume again.
	finished := member.Stopped != nil || member.Phase == api.MemberSwapping
	w.enter(member, api.MemberCopying)
	if !w.record.Copies() {
		w.enter(member, api.MemberWaiting)
	}
	member.Attempt++
	member.Pod, member.Locked, member.Held, member.Stopped = "", false, nil, nil
	for i := range member.Claims {
		move := &member.Claims[i]
		if move.Moved {
			continue
		}
		if move.Digest = ""; finished && w.record.Copies() {
			move.CopyAnew()
		}
	}
	w.reason = api.StartedByOthers
}

// givesBack reports whether the member is held, and can still be started on its volumes as they are.
func givesBack(member *api.Member) bool {
	return member.Phase == api.MemberStopping || member.Phase == api.MemberFinalPass || member.Phase == api.MemberGrowing
}

// keeps reports whether the pod keeps its member from being started: it is held, or it is a lock, with or without its finalizer.
func keeps(pod *corev1.Pod) bool {
	return statefulset.Held(pod) || pod != nil && pod.DeletionTimestamp == nil && resources.LocksName(pod)
}

// dying reports whether a pod that is given back has to stay held for a moment: it was deleted by force, so its object would go at once, and the
// StatefulSet controller would start a process on the same volumes beside the one that the node still ends. Nothing is awaited from a node
// that does not report: the user answers for it with the force.
func (in Input) dying(pod *corev1.Pod) bool {
	forced := pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	if !forced || !statefulset.Held(pod) || in.Now.Sub(pod.DeletionTimestamp.Time) > in.Settings.QuiesceTimeout {
		return false
	}
	node := in.Nodes[pod.Spec.NodeName]
	return node != nil && statefulset.NodeReady(node) && statefulset.NotStopped(pod, node) != ""
}

// release takes the hold off a pod. A lock is deleted while it still has the finalizer: the fence lets restore delete only such pods.
func release(pod *corev1.Pod) []plan.Action {
	switch {
	case pod.DeletionTimestamp == nil && resources.LocksName(pod) && statefulset.Held(pod):
		return []plan.Action{plan.Delete(plan.Pods, pod)}
	case pod.DeletionTimestamp == nil && resources.LocksName(pod):
		return []plan.Action{plan.Evict(pod)}
	}
	patch := plan.PatchOf(plan.Pods, pod).RemoveFinalizer(api.HoldFinalizer)
	if pod.DeletionTimestamp == nil { // it was not told to stop, and runs
		patch.Unlink()
	}
	return patch.Actions()
}
