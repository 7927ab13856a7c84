package restore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// stopWaitingMembers is the gate: it stops waiting members once every condition for their stop holds. A rolling resize stops one member;
// otherwise all members stop together.
func (w *work) stopWaitingMembers() {
	next, complete := w.waitingMembers()
	w.noteHooksBefore(next)
	if !complete || len(next) == 0 && (len(w.Record.Members) > 0 || !w.needsReplacement(w.Record)) || !w.cutoverOpen() ||
		w.stopBlocked(next) {
		return
	}
	hooks, ready := w.hooksBefore(next)
	if !ready || slices.ContainsFunc(next, func(member *api.Member) bool { return !w.othersCaughtUp(member) }) {
		return
	}
	for _, member := range hooks {
		w.runHookBefore(member)
	}
	if len(hooks) > 0 || w.replaceSet() {
		return
	}
	for _, member := range slices.Backward(next) { // the Events then show the order of the stops
		w.stopMember(member)
	}
	w.reportStop(next)
}

// waitingMembers returns the members that wait to be stopped. It reports false if all members stop together and one is not copied yet.
func (w *work) waitingMembers() (next []*api.Member, complete bool) {
	complete = true
	for i := range w.Record.Members {
		switch member := &w.Record.Members[i]; {
		case member.Phase == api.MemberWaiting:
			next = append(next, member)
		case w.anotherWaitsToStop() && member.Phase == api.MemberSwapping:
		case member.Phase != api.MemberMoved:
			w.WaitFor(false, "pod %s-%d must be %s first", w.Name, member.Ordinal, prepared(w.Record))
			complete = complete && w.Record.Strategy != api.StrategyWhole
		}
	}
	return next, complete
}

// stopBlocked reports whether one of the members must not be stopped now. The record then says why.
func (w *work) stopBlocked(members []*api.Member) bool {
	for _, member := range members {
		if problem := w.foreignClaimFinalizer(member); problem != "" {
			w.blockStop("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, problem)
			if w.Record.Message != w.Before.Message {
				w.Event(w.Set, true, api.ForeignFinalizer, "%s", problem)
			}
			return true
		}
		if why := w.stopBlocker(member); why != "" {
			w.blockStop("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, why)
			return true
		}
	}
	return false
}

// reportStop tells the user which pod Drydock stops and holds, because kubectl get pods shows the pod as Terminating without a reason.
func (w *work) reportStop(members []*api.Member) {
	first := members[0]
	subject := fmt.Sprintf("pod %s-%d is stopped", w.Name, first.Ordinal)
	switch {
	case len(members) > 1:
		subject = fmt.Sprintf("%d members are stopped together", len(members))
	case first.Locked:
		subject = fmt.Sprintf("the name of pod %s-%d is locked", w.Name, first.Ordinal)
	}
	until := "the volumes are replaced"
	if w.Record.GrowsWhileStopped() {
		until = "the volumes have grown"
	}
	w.Report(w.Set, false, api.Quiescing, "%s (try %d of at most %d for each pod) and held by the finalizer %s until %s", subject, first.Stops,
		maxStops, api.HoldFinalizer, until)
}

// cutoverOpen reports whether the user allows stops now. If not, the record says why, and the resize gives its turn back: the user may take
// days. Afterwards it needs a turn again, because movers update the copies before the stop.
func (w *work) cutoverOpen() bool {
	condition := resize.CutoverObstacle(w.Observed, w.Record)
	switch {
	case condition != "":
		w.blockStop("%s; the stop waits for %s", stopReadiness(w.Record), condition)
		w.Record.TurnReturned = w.Record.TurnReturned ||
			w.Record.Copies() && len(w.Record.Members) > 0 && !slices.ContainsFunc(w.Record.Members, isUnderWay)
	case w.Record.TurnReturned:
		w.WaitFor(false, "the resize needs free movers again")
	}
	return condition == "" && !w.Record.TurnReturned
}

// isUnderWay reports whether the member has a mover, or is stopped.
func isUnderWay(member api.Member) bool {
	return !slices.Contains([]api.MemberPhase{api.MemberPending, api.MemberWaiting, api.MemberMoved, api.MemberKept}, member.Phase)
}

// replaceSet creates the set again with its new templates before the first member stops. From then on, every claim that the StatefulSet
// controller creates fits the new volumes. It reports true while the set lacks the new templates.
func (w *work) replaceSet() bool {
	if !w.needsReplacement(w.Record) {
		return false
	}
	if w.TwoRevisions() {
		w.blockStop("a partition keeps pods of an older revision, which is lost when the StatefulSet is created again")
		return true
	}
	if finalizer := foreignFinalizer(w.Set); finalizer != "" {
		w.blockStop("finalizer %s would block the deletion of StatefulSet %s, which must be created again; remove the finalizer",
			finalizer, w.Name)
		return true
	}
	if why := resize.ObstacleToAddTemplate(w.Set, w.Record.Fields); why != "" {
		w.blockStop("StatefulSet %s is not created again yet: %s", w.Name, why)
		return true
	}
	w.override = recreate(w.Input, w.Record, w.Record.NewShape())
	return true
}

// stopBlocker returns why the member must not be stopped now, or empty if it may.
func (w *work) stopBlocker(member *api.Member) string {
	pod := w.MemberPod(member.Ordinal)
	switch {
	case pod == nil && w.Wants(member.Ordinal):
		return fmt.Sprintf("pod %s-%d does not exist yet", w.Name, member.Ordinal)
	case pod == nil:
		return w.otherClaimUser(member, "")
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is terminating", pod.Name)
	case !statefulset.Started(pod):
		return fmt.Sprintf("pod %s has not started", pod.Name)
	case !statefulset.IsPodOf(pod, w.Set):
		return fmt.Sprintf("pod %s does not belong to StatefulSet %s", pod.Name, w.Name)
	case !metav1.IsControlledBy(pod, w.Set): // the set was just created again; restore's rights cover only pods with a controller
		return fmt.Sprintf("StatefulSet %s has not adopted it yet", w.Name)
	case moving.ShouldYield(w.Observed, w.Record, member):
		return fmt.Sprintf("pod %s has become the primary, so another member is moved first", pod.Name)
	}
	if why := cmp.Or(w.changedClaim(member), w.OtherRevision(pod, member.Ordinal), w.otherClaimUser(member, pod.UID),
		w.missingMover(member, pod)); why != "" {
		return why
	}
	if limit, short := resize.StopTooShort(w.Set, w.Record.Strategy, member); short && w.Record.Copies() && member.Pod == "" {
		return fmt.Sprintf("the pod is copied only while it is stopped, which takes about %d min if the volumes are full, and its stop would be "+
			"cancelled after %s. Raise %s", int(resize.WholeCopy(member).Minutes()), 2*limit, api.MaxStopAnnotation)
	}
	if w.Record.Strategy == api.StrategyRolling {
		return cmp.Or(w.WhyUnsteady(member.Ordinal), w.BudgetRefusal)
	}
	return ""
}

// foreignClaimFinalizer returns another controller's finalizer on a claim of the member, or empty. It would keep the claim from being
// replaced while the pod is stopped.
func (w *work) foreignClaimFinalizer(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); claim != nil && !move.Moved && !move.InPlace {
			if problem := statefulset.HeldByOthers("claim", claim); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// changedClaim returns which claim of the member was deleted or replaced since it was copied, or empty. The pod keeps running with its
// data, and backup gives the operation up.
func (w *work) changedClaim(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); !move.Moved && (claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil) {
			return fmt.Sprintf("claim %s was deleted or replaced", move.Claim)
		}
	}
	return ""
}

// otherClaimUser returns which pod other than the member's own uses a claim of the member, or empty. Such a pod could write after the
// member has stopped and make the copy stale. When a swap finds a pod that has ended, it cannot know whether that was before the copy.
func (w *work) otherClaimUser(member *api.Member, own types.UID) string {
	for i := range member.Claims {
		if other := w.foreignPod(w.Record, own, &member.Claims[i]); other != nil {
			return fmt.Sprintf("pod %s also uses claim %s; delete that pod", other.Name, member.Claims[i].Claim)
		}
	}
	return ""
}

// missingMover returns why no mover is ready for the member's final pass, or empty. Without a waiting mover, the stop would last as long
// as a new one takes to start.
func (w *work) missingMover(member *api.Member, pod *corev1.Pod) string {
	pods, jobs := w.MoversOfMember(w.Record.Operation, member.Ordinal)
	waits := func(mover *corev1.Pod) bool { // its Job must stay, too: it is deleted when the cutover is closed
		return resize.WaitsForStop(mover) && slices.ContainsFunc(jobs, func(job *batchv1.Job) bool {
			return job.DeletionTimestamp == nil && metav1.IsControlledBy(mover, job)
		})
	}
	switch {
	case !w.Record.Copies():
		return ""
	case moving.LacksFirstPass(w.Observed, member):
		return fmt.Sprintf("pod %s started while its member waited, so it is copied first", pod.Name)
	case member.Pod == "":
		return ""
	case member.Pod != pod.UID:
		return fmt.Sprintf("pod %s was started again after it was copied", pod.Name)
	case !slices.ContainsFunc(pods, waits):
		return "its mover no longer waits; a new one is created"
	}
	return ""
}

// blockStop waits at the gate and writes the reason into the record when it changes.
func (w *work) blockStop(format string, args ...any) {
	w.WaitFor(false, format, args...)
	for i := range w.Record.Members {
		w.Record.Members[i].CheckedAt = nil
	}
	w.Record.Reason, w.Record.Message = api.GateClosed, w.Waiting()
	w.Reason = api.GateClosed
}

const (
	// checkPause is the least time between the two good answers that a stop needs: a replica may have caught up only for a moment.
	checkPause = 3 * time.Second
	// checkFresh is how long the first good answer counts. It is longer than the time between two ticks.
	checkFresh = 2 * time.Minute
)

// memberLag returns why one of the pods has not caught up according to the set's member check. It returns empty if all have, or the set
// has no check. If an answer is missing, memberLag adds the pod to podsToAsk and returns known false; then the caller must not decide on
// the reason.
func (w *work) memberLag(pods ...*corev1.Pod) (why string, known bool) {
	check, err := probe.ParseMemberCheck(w.Set)
	switch {
	case err != nil:
		return fmt.Sprintf("annotation %s cannot be read: %v", api.MemberCheckAnnotation, err), true
	case check == nil:
		return "", true
	}
	known = true
	for _, pod := range pods {
		answer, asked := w.Checks[pod.UID]
		switch {
		case !asked:
			w.podsToAsk, known = append(w.podsToAsk, pod), false
		case why == "":
			why = answer
		}
	}
	if !known {
		w.WaitFor(false, "waiting for the answers to the member check")
	}
	return why, known
}

// otherPods returns the pods of the set's other members.
func (in Input) otherPods(ordinal int) []*corev1.Pod {
	var pods []*corev1.Pod
	span := statefulset.Span(in.Set)
	for other := span.Start; other < span.End; other++ {
		if pod := in.MemberPod(other); pod != nil && other != ordinal {
			pods = append(pods, pod)
		}
	}
	return pods
}

// othersCaughtUp reports whether all other members have caught up, so that this member may stop. The check must be good twice. If it is
// not, the record or the wait says why. A member without a pod needs no check, because its stop takes nothing away. The same holds where
// all members stop together.
func (w *work) othersCaughtUp(member *api.Member) bool {
	_, checks := w.Set.Annotations[api.MemberCheckAnnotation]
	if !checks || w.Record.Strategy != api.StrategyRolling || w.MemberPod(member.Ordinal) == nil {
		return true
	}
	first := member.CheckedAt != nil && operation.Within(w.Now, member.CheckedAt.Time, checkFresh)
	if first && w.Now.Sub(member.CheckedAt.Time) < checkPause {
		w.WaitFor(true, "waiting for the second member check")
		return false
	}
	why, known := w.memberLag(w.otherPods(member.Ordinal)...)
	switch {
	case !known:
		return false
	case why != "":
		w.blockStop("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, why)
		return false
	case !first:
		member.CheckedAt = operation.Moment(w.Now)
		w.Reason = api.GateClosed
		w.WaitFor(true, "waiting for the second member check")
		return false
	}
	return true
}
