package restore

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// gate decides whether members that wait may be stopped now, and stops them. In a rolling resize it is one; else all, together.
func (w *work) gate() {
	next, complete := w.candidates()
	if !complete || len(next) == 0 && (len(w.record.Members) > 0 || !w.replacing(w.record)) || !w.cutoverOpen() || w.barred(next) {
		return
	}
	hooks, rest := w.hooksBefore(next)
	if !rest || slices.ContainsFunc(next, func(member *api.Member) bool { return !w.caughtUp(member) }) {
		return
	}
	for _, member := range hooks {
		w.runBefore(member)
	}
	if len(hooks) > 0 || w.replaced() {
		return
	}
	for _, member := range slices.Backward(next) { // so that the order of stops is seen
		w.hold(member)
	}
	w.sayStopped(next)
}

// candidates returns the members that wait to be stopped. It reports false if all members stop together, and one is not copied yet.
func (w *work) candidates() (next []*api.Member, complete bool) {
	for i := range w.record.Members {
		switch member := &w.record.Members[i]; {
		case member.Phase == api.MemberWaiting:
			next = append(next, member)
		case w.followed() && member.Phase == api.MemberSwapping:
		case member.Phase != api.MemberMoved:
			w.waitFor(false, "pod %s-%d is to be %s first", w.Name, member.Ordinal, prepared(w.record))
			if w.record.Strategy == api.StrategyWhole {
				return nil, false
			}
		}
	}
	return next, true
}

// barred reports whether one of the members must not be stopped now. The record says why.
func (w *work) barred(members []*api.Member) bool {
	for _, member := range members {
		if held := w.claimKept(member); held != "" {
			w.keepShut("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, held)
			if w.record.Message != w.before.Message {
				w.note(true, api.ForeignFinalizer, "%s", held)
			}
			return true
		}
		if why := w.closed(member); why != "" {
			w.keepShut("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, why)
			return true
		}
	}
	return false
}

// sayStopped tells the user which pod Drydock stops and keeps: kubectl get pods shows it as Terminating and not why.
func (w *work) sayStopped(members []*api.Member) {
	first := members[0]
	who := fmt.Sprintf("pod %s-%d is stopped", w.Name, first.Ordinal)
	switch {
	case len(members) > 1:
		who = fmt.Sprintf("%d members are stopped together", len(members))
	case first.Locked:
		who = fmt.Sprintf("the name of pod %s-%d is taken", w.Name, first.Ordinal)
	}
	until := "the volumes are replaced"
	if w.record.GrowsHeld() {
		until = "the volumes have grown"
	}
	w.say(false, api.Quiescing, "%s (stop %d of at most %d) and held by the finalizer %s until %s", who, first.Stops, maxStops,
		api.HoldFinalizer, until)
}

// keepShut waits at the gate, and says in the record why. The words are written when they change.
func (w *work) keepShut(format string, args ...any) {
	w.waitFor(false, format, args...)
	for i := range w.record.Members {
		w.record.Members[i].Checked = nil
	}
	w.record.Reason, w.record.Message = api.GateClosed, w.waiting
	w.reason = api.GateClosed
}

// closed says why the member must not be stopped now; empty if it may.
func (w *work) closed(member *api.Member) string {
	pod := w.MemberPod(member.Ordinal)
	switch {
	case pod == nil && w.Wants(member.Ordinal):
		return fmt.Sprintf("pod %s-%d does not exist yet", w.Name, member.Ordinal)
	case pod == nil:
		return ""
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is ending", pod.Name)
	case !statefulset.Started(pod):
		return fmt.Sprintf("pod %s has not started", pod.Name)
	case !statefulset.IsPodOf(pod, w.Set):
		return fmt.Sprintf("pod %s does not belong to StatefulSet %s", pod.Name, w.Name)
	case resize.GoesLater(w.Observed, w.record, member):
		return fmt.Sprintf("pod %s has become the primary, so another member is moved first", pod.Name)
	}
	if why := cmp.Or(w.claimReplaced(member), w.OtherRevision(pod, member.Ordinal), w.shared(member, pod), w.moverGone(member, pod)); why != "" {
		return why
	}
	if w.record.Strategy == api.StrategyRolling {
		return cmp.Or(w.Unsteady(member.Ordinal), w.Budget)
	}
	return ""
}

// claimKept says which finalizer of others would keep a claim of the member when it is replaced, while its pod is stopped; empty if none
// does.
func (w *work) claimKept(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); claim != nil && !move.Moved && !move.InPlace {
			if held := statefulset.HeldByOthers("claim", claim); held != "" {
				return held
			}
		}
	}
	return ""
}

// claimReplaced says which claim of the member is not the one any more that was copied, or is being deleted; empty if none is. The pod runs
// on with its data, and backup gives the operation up.
func (w *work) claimReplaced(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); !move.Moved && (claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil) {
			return fmt.Sprintf("claim %s was deleted or replaced", move.Claim)
		}
	}
	return ""
}

// shared says which other pod uses a claim of the member; empty if none does. Such a pod could write after the member has stopped, and make
// the copy stale.
func (w *work) shared(member *api.Member, pod *corev1.Pod) string {
	for i := range member.Claims {
		if other := w.intruder(w.record, pod.UID, &member.Claims[i]); other != nil {
			return fmt.Sprintf("pod %s uses claim %s, too; delete that pod", other.Name, member.Claims[i].Claim)
		}
	}
	return ""
}

// moverGone says that no mover waits for the member, so that its stop would last as long as a new one takes to start; empty if one does,
// or the member has none.
func (w *work) moverGone(member *api.Member, pod *corev1.Pod) string {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	waits := func(mover *corev1.Pod) bool { // and its Job does not go, as when the cutover was shut a moment ago
		return resize.Waits(mover) && slices.ContainsFunc(jobs, func(job *batchv1.Job) bool {
			return job.DeletionTimestamp == nil && metav1.IsControlledBy(mover, job)
		})
	}
	switch {
	case !w.record.Copies():
		return ""
	case resize.LacksFirstPass(w.Observed, member):
		return fmt.Sprintf("pod %s was started while its member waited, and is copied first", pod.Name)
	case member.Pod == "":
		return ""
	case member.Pod != pod.UID:
		return fmt.Sprintf("pod %s was started again since it was copied", pod.Name)
	case !slices.ContainsFunc(pods, waits):
		return "its mover does not wait beside it any more; another one is made"
	}
	return ""
}

// cutoverOpen reports whether the user lets members stop now. If not, the record says why.
func (w *work) cutoverOpen() bool {
	shut := resize.ShutCutover(w.Observed, w.record)
	if shut != "" {
		w.keepShut("%s; the stop waits for %s", readyToStop(w.record), shut)
	}
	return shut == ""
}

// replaced creates the set again with its new templates before the first member is stopped: from then on, every claim that the StatefulSet
// controller creates fits the new volumes. It reports whether the set does not have them yet.
func (w *work) replaced() bool {
	if !w.replacing(w.record) {
		return false
	}
	if w.TwoRevisions() {
		w.keepShut("a partition keeps pods of an older revision, which a set that is created again would not know")
		return true
	}
	if finalizer := foreignFinalizer(w.Set); finalizer != "" {
		w.keepShut("finalizer %s would hold StatefulSet %s when it is deleted to be created again; remove it", finalizer, w.Name)
		return true
	}
	if why := resize.CannotAdd(w.Set, w.record.Fields); why != "" {
		w.keepShut("StatefulSet %s is not created again yet: %s", w.Name, why)
		return true
	}
	w.given = recreate(w.Input, w.record, w.record.Asked())
	return true
}

// replacing reports whether the set is still to be created again with its new templates.
func (in Input) replacing(record *api.Resize) bool {
	return record.ReplaceSet && differ(in.Set, record.Asked())
}
