package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/statefulset"
)

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
		w.waitFor(false, "waiting for the answers to the member check")
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
	if !checks || w.record.Strategy != api.StrategyRolling || w.MemberPod(member.Ordinal) == nil {
		return true
	}
	first := member.CheckedAt != nil && operation.Within(w.Now, member.CheckedAt.Time, checkFresh)
	if first && w.Now.Sub(member.CheckedAt.Time) < checkPause {
		w.waitFor(true, "waiting for the second member check")
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
		w.reason = api.GateClosed
		w.waitFor(true, "waiting for the second member check")
		return false
	}
	return true
}
