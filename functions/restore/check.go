package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

const (
	// checkPause is the least time between the two good answers without which no member is stopped: a replica may have caught up for a moment.
	checkPause = 3 * time.Second
	// checkFresh is for how long the first of them counts. It is longer than the time between two ticks.
	checkFresh = 2 * time.Minute
)

// behind says why one of the pods has not caught up, as the set's member check says; empty if all have, or the set has no check. Pods
// whose answers are not known are to be asked: then known is false, and nothing may be decided on the words.
func (w *work) behind(pods ...*corev1.Pod) (why string, known bool) {
	check, err := idle.MemberCheckOf(w.Set)
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
			w.ask, known = append(w.ask, pod), false
		case why == "":
			why = answer
		}
	}
	if !known {
		w.waitFor(false, "the member check is asked")
	}
	return why, known
}

// othersOf returns the pods of the set's other members.
func (in Input) othersOf(ordinal int) []*corev1.Pod {
	var pods []*corev1.Pod
	span := statefulset.Span(in.Set)
	for other := span.Start; other < span.End; other++ {
		if pod := in.MemberPod(other); pod != nil && other != ordinal {
			pods = append(pods, pod)
		}
	}
	return pods
}

// caughtUp reports whether all others have caught up so that the member may be missed: the check has to be good twice. Else it says what is
// waited for. A member without a pod is not missed, and where all stop together nothing is.
func (w *work) caughtUp(member *api.Member) bool {
	_, checks := w.Set.Annotations[api.MemberCheckAnnotation]
	if !checks || w.record.Strategy != api.StrategyRolling || w.MemberPod(member.Ordinal) == nil {
		return true
	}
	first := member.Checked != nil && w.Now.Sub(member.Checked.Time) < checkFresh
	if first && w.Now.Sub(member.Checked.Time) < checkPause {
		w.waitFor(true, "the member check is asked once more")
		return false
	}
	why, known := w.behind(w.othersOf(member.Ordinal)...)
	switch {
	case !known:
		return false
	case why != "":
		w.keepShut("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, why)
		return false
	case !first:
		member.Checked = operation.Moment(w.Now)
		w.reason = api.GateClosed
		w.waitFor(true, "the member check is asked once more")
		return false
	}
	return true
}

// follows waits until a member that is ready has caught up on its new volumes. Its mover is not needed any more. A check that is not good
// in time ends the operation as a pod that is not ready does. Once it was good, the hook after the member follows.
func (w *work) follows(member *api.Member, pod *corev1.Pod) {
	if member.Ready != nil {
		w.hookAfter(member)
		return
	}
	switch why, known := w.behind(pod); {
	case !known:
	case why == "":
		member.Ready = operation.Moment(w.Now)
		w.hookAfter(member)
	case w.tooLong(member):
		w.given = w.notReady(member, "had not caught up", why)
	default:
		w.waitFor(false, "%s", why)
		w.do(api.Behind, endMovers(w.Input, w.record, member)...)
		w.record.Reason = api.Behind
		w.record.Message = fmt.Sprintf("pod %s is ready on its new volumes, and has not caught up: %s", pod.Name, why)
	}
}
