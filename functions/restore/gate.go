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

// gate decides which members may stop now.
type gate struct{ *work }

func (w *work) gate() gate { return gate{w} }

// stopWaitingMembers is the gate: it stops waiting members once every condition for their stop holds. A rolling resize stops one member;
// otherwise all members stop together.
func (g gate) stopWaitingMembers() {
	next, complete := g.waitingMembers()
	g.memberHooks().noteHooksBefore(next)
	if !complete || len(next) == 0 && (len(g.Record.Members) > 0 || !g.needsReplacement(g.Record)) || !g.cutoverOpen() ||
		g.stopBlocked(next) {
		return
	}
	hooks, ready := g.memberHooks().hooksBefore(next)
	if !ready || slices.ContainsFunc(next, func(member *api.Member) bool { return !g.othersCaughtUp(member) }) {
		return
	}
	for _, member := range hooks {
		g.memberHooks().runHookBefore(member)
	}
	if len(hooks) > 0 || g.replaceSet() {
		return
	}
	for _, member := range slices.Backward(next) { // the Events then show the order of the stops
		g.stopping().stopMember(member)
	}
	g.reportStop(next)
}

// waitingMembers returns the members that wait to be stopped. It reports false if all members stop together and one is not copied yet.
func (g gate) waitingMembers() (next []*api.Member, complete bool) {
	complete = true
	for i := range g.Record.Members {
		switch member := &g.Record.Members[i]; {
		case member.Phase == api.MemberWaiting:
			next = append(next, member)
		case g.swapping().anotherWaitsToStop() && member.Phase == api.MemberSwapping:
		case member.Phase != api.MemberMoved:
			g.WaitFor(false, "pod %s-%d must be %s first", g.Name, member.Ordinal, prepared(g.Record))
			complete = complete && g.Record.Strategy != api.StrategyWhole
		}
	}
	return next, complete
}

// stopBlocked reports whether one of the members must not be stopped now. The record then says why.
func (g gate) stopBlocked(members []*api.Member) bool {
	for _, member := range members {
		if problem := g.foreignClaimFinalizer(member); problem != "" {
			g.blockStop("pod %s-%d is not stopped yet: %s", g.Name, member.Ordinal, problem)
			if g.Record.Message != g.Before.Message {
				g.Event(g.Set, true, api.ForeignFinalizer, "%s", problem)
			}
			return true
		}
		if why := g.stopBlocker(member); why != "" {
			g.blockStop("pod %s-%d is not stopped yet: %s", g.Name, member.Ordinal, why)
			return true
		}
	}
	return false
}

// reportStop tells the user which pod Drydock stops and holds, because kubectl get pods shows the pod as Terminating without a reason.
func (g gate) reportStop(members []*api.Member) {
	first := members[0]
	subject := fmt.Sprintf("pod %s-%d is stopped", g.Name, first.Ordinal)
	switch {
	case len(members) > 1:
		subject = fmt.Sprintf("%d members are stopped together", len(members))
	case first.Locked:
		subject = fmt.Sprintf("the name of pod %s-%d is locked", g.Name, first.Ordinal)
	}
	until := "the volumes are replaced"
	if g.Record.GrowsWhileStopped() {
		until = "the volumes have grown"
	}
	g.Report(g.Set, false, api.Quiescing, "%s (try %d of at most %d for each pod) and held by the finalizer %s until %s", subject, first.Stops,
		maxStops, api.HoldFinalizer, until)
}

// cutoverOpen reports whether the user allows stops now. If not, the record says why, and the resize gives its turn back: the user may take
// days. Afterwards it needs a turn again, because movers update the copies before the stop.
func (g gate) cutoverOpen() bool {
	condition := resize.CutoverObstacle(g.Observed, g.Record)
	switch {
	case condition != "":
		g.blockStop("%s; the stop waits for %s", stopReadiness(g.Record), condition)
		g.Record.TurnReturned = g.Record.TurnReturned ||
			g.Record.Copies() && len(g.Record.Members) > 0 && !slices.ContainsFunc(g.Record.Members, isUnderWay)
	case g.Record.TurnReturned:
		g.WaitFor(false, "the resize needs free movers again")
	}
	return condition == "" && !g.Record.TurnReturned
}

// isUnderWay reports whether the member has a mover, or is stopped.
func isUnderWay(member api.Member) bool {
	return !slices.Contains([]api.MemberPhase{api.MemberPending, api.MemberWaiting, api.MemberMoved, api.MemberKept}, member.Phase)
}

// replaceSet creates the set again with its new templates before the first member stops. From then on, every claim that the StatefulSet
// controller creates fits the new volumes. It reports true while the set lacks the new templates.
func (g gate) replaceSet() bool {
	if !g.needsReplacement(g.Record) {
		return false
	}
	if g.TwoRevisions() {
		g.blockStop("a partition keeps pods of an older revision, which is lost when the StatefulSet is created again")
		return true
	}
	if finalizer := foreignFinalizer(g.Set); finalizer != "" {
		g.blockStop("finalizer %s would block the deletion of StatefulSet %s, which must be created again; remove the finalizer",
			finalizer, g.Name)
		return true
	}
	if why := resize.ObstacleToAddTemplate(g.Set, g.Record.Fields); why != "" {
		g.blockStop("StatefulSet %s is not created again yet: %s", g.Name, why)
		return true
	}
	g.override = recreate(g.Input, g.Record, g.Record.NewShape())
	return true
}

// stopBlocker returns why the member must not be stopped now, or empty if it may.
func (g gate) stopBlocker(member *api.Member) string {
	pod := g.MemberPod(member.Ordinal)
	switch {
	case pod == nil && g.Wants(member.Ordinal):
		return fmt.Sprintf("pod %s-%d does not exist yet", g.Name, member.Ordinal)
	case pod == nil:
		return g.otherClaimUser(member, "")
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is terminating", pod.Name)
	case !statefulset.Started(pod):
		return fmt.Sprintf("pod %s has not started", pod.Name)
	case !statefulset.IsPodOf(pod, g.Set):
		return fmt.Sprintf("pod %s does not belong to StatefulSet %s", pod.Name, g.Name)
	case !metav1.IsControlledBy(pod, g.Set): // the set was just created again; restore's rights cover only pods with a controller
		return fmt.Sprintf("StatefulSet %s has not adopted it yet", g.Name)
	case moving.ShouldYield(g.Observed, g.Record, member):
		return fmt.Sprintf("pod %s has become the primary, so another member is moved first", pod.Name)
	}
	if why := cmp.Or(g.changedClaim(member), g.OtherRevision(pod, member.Ordinal), g.otherClaimUser(member, pod.UID),
		g.missingMover(member, pod)); why != "" {
		return why
	}
	if limit, short := resize.StopTooShort(g.Set, g.Record.Strategy, member); short && g.Record.Copies() && member.Pod == "" {
		return fmt.Sprintf("the pod is copied only while it is stopped, which takes about %d min if the volumes are full, and its stop would be "+
			"cancelled after %s. Raise %s", int(resize.WholeCopy(member).Minutes()), 2*limit, api.MaxStopAnnotation)
	}
	if g.Record.Strategy == api.StrategyRolling {
		return cmp.Or(g.WhyUnsteady(member.Ordinal), g.BudgetRefusal)
	}
	return ""
}

// foreignClaimFinalizer returns another controller's finalizer on a claim of the member, or empty. It would keep the claim from being
// replaced while the pod is stopped.
func (g gate) foreignClaimFinalizer(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := g.Claim(move.Claim); claim != nil && !move.Moved && !move.InPlace {
			if problem := statefulset.HeldByOthers("claim", claim); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// changedClaim returns which claim of the member was deleted or replaced since it was copied, or empty. The pod keeps running with its
// data, and backup gives the operation up.
func (g gate) changedClaim(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := g.Claim(move.Claim); !move.Moved && (claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil) {
			return fmt.Sprintf("claim %s was deleted or replaced", move.Claim)
		}
	}
	return ""
}

// otherClaimUser returns which pod other than the member's own uses a claim of the member, or empty. Such a pod could write after the
// member has stopped and make the copy stale. When a swap finds a pod that has ended, it cannot know whether that was before the copy.
func (g gate) otherClaimUser(member *api.Member, own types.UID) string {
	for i := range member.Claims {
		if other := g.foreignPod(g.Record, own, &member.Claims[i]); other != nil {
			return fmt.Sprintf("pod %s also uses claim %s; delete that pod", other.Name, member.Claims[i].Claim)
		}
	}
	return ""
}

// missingMover returns why no mover is ready for the member's final pass, or empty. Without a waiting mover, the stop would last as long
// as a new one takes to start.
func (g gate) missingMover(member *api.Member, pod *corev1.Pod) string {
	pods, jobs := g.MoversOfMember(g.Record.Operation, member.Ordinal)
	waits := func(mover *corev1.Pod) bool { // its Job must stay, too: it is deleted when the cutover is closed
		return resize.WaitsForStop(mover) && slices.ContainsFunc(jobs, func(job *batchv1.Job) bool {
			return job.DeletionTimestamp == nil && metav1.IsControlledBy(mover, job)
		})
	}
	switch {
	case !g.Record.Copies():
		return ""
	case moving.LacksFirstPass(g.Observed, member):
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
func (g gate) blockStop(format string, args ...any) {
	g.WaitFor(false, format, args...)
	for i := range g.Record.Members {
		g.Record.Members[i].CheckedAt = nil
	}
	g.Record.Reason, g.Record.Message = api.GateClosed, g.Waiting()
	g.Reason = api.GateClosed
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
func (g gate) memberLag(pods ...*corev1.Pod) (why string, known bool) {
	check, err := probe.ParseMemberCheck(g.Set)
	switch {
	case err != nil:
		return fmt.Sprintf("annotation %s cannot be read: %v", api.MemberCheckAnnotation, err), true
	case check == nil:
		return "", true
	}
	known = true
	for _, pod := range pods {
		answer, asked := g.Checks[pod.UID]
		switch {
		case !asked:
			g.podsToAsk, known = append(g.podsToAsk, pod), false
		case why == "":
			why = answer
		}
	}
	if !known {
		g.WaitFor(false, "waiting for the answers to the member check")
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
func (g gate) othersCaughtUp(member *api.Member) bool {
	_, checks := g.Set.Annotations[api.MemberCheckAnnotation]
	if !checks || g.Record.Strategy != api.StrategyRolling || g.MemberPod(member.Ordinal) == nil {
		return true
	}
	first := member.CheckedAt != nil && operation.Within(g.Now, member.CheckedAt.Time, checkFresh)
	if first && g.Now.Sub(member.CheckedAt.Time) < checkPause {
		g.WaitFor(true, "waiting for the second member check")
		return false
	}
	why, known := g.memberLag(g.otherPods(member.Ordinal)...)
	switch {
	case !known:
		return false
	case why != "":
		g.blockStop("pod %s-%d is not stopped yet: %s", g.Name, member.Ordinal, why)
		return false
	case !first:
		member.CheckedAt = operation.Moment(g.Now)
		g.Reason = api.GateClosed
		g.WaitFor(true, "waiting for the second member check")
		return false
	}
	return true
}
