package cleanuppod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// obstructed tells what is in the way of a cleanup, and gives it up after a time.
func (in Input) obstructed(doc *api.Cleanup, o cleanup.Ordinal, reason api.Reason, message string) plan.Plan {
	entry := entryOf(doc, o.Number)
	switch {
	case entry == nil || entry.Reason != reason:
		next := api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message, Deadline: operation.Moment(in.Now.Add(in.Settings.CleanupTimeout))}
		if entry != nil {
			next.Tries, next.Pod = entry.Tries, entry.Pod
		}
		return plan.Do(reason, append(in.store(withEntry(doc, next)).Actions(), in.note(doc, reason, true, "%s", message))...)
	case entry.Deadline != nil && in.Now.After(entry.Deadline.Time):
		return in.giveUp(doc, o, api.OrdinalStatus{Tries: entry.Tries, Reason: reason, Message: message})
	}
	return plan.Wait(reason, "%s", message)
}

// failed counts a try that has failed, and says when the next one is, if there is one. A replica that is wanted back is not
// kept waiting.
func (in Input) failed(doc *api.Cleanup, o cleanup.Ordinal, message string) plan.Plan {
	next, entry := api.OrdinalStatus{Ordinal: o.Number, Tries: 1, Message: message}, entryOf(doc, o.Number)
	if o.Pod != nil {
		next.Pod = o.Pod.UID
	}
	if o.Pod != nil && (entry == nil || entry.Pod != o.Pod.UID) {
		next.Tries = max(1, failures(o.Pod))
	}
	if entry != nil {
		next.Tries += entry.Tries
	}
	if next.Tries >= in.Settings.CleanupTries || o.Wanted {
		next.Reason = api.CleanupFailed
		next.Message = fmt.Sprintf("%s; %s kept. Annotate the StatefulSet with %s to try again", message, areKept(o), api.RetryAnnotation)
		return in.giveUp(doc, o, next)
	}
	next.Reason, next.NextTry = api.CleanupTriedOnce, operation.Moment(in.Now.Add(backoff(in.Settings.CleanupBackoff, next.Tries)))
	return plan.Do(api.CleanupTriedOnce, append(in.store(withEntry(doc, next)).Actions(), in.note(doc, next.Reason, true, "%s", message))...)
}

// giveUp ends the cleanup of an ordinal. Its claims are kept.
func (in Input) giveUp(doc *api.Cleanup, o cleanup.Ordinal, entry api.OrdinalStatus) plan.Plan {
	entry.Ordinal = o.Number
	p := plan.Do(entry.Reason, append(in.store(withEntry(doc, entry)).Actions(), in.note(doc, entry.Reason, true, "%s", entry.Message))...)
	p.Outcomes = []plan.Outcome{in.outcome(plan.Failed, o.Pod)}
	return p
}

// outcome is the end of an ordinal's cleanup, which its pod, if there is one, has begun.
func (in Input) outcome(result string, pod *corev1.Pod) plan.Outcome {
	outcome := plan.Outcome{Namespace: in.Set.Namespace, Set: in.Set.Name, Result: result}
	if pod != nil {
		outcome.Took = in.Now.Sub(pod.CreationTimestamp.Time)
	}
	return outcome
}

// longestBackoff is the kubelet's for containers, too.
const longestBackoff = 5 * time.Minute

// backoff doubles with every failure.
func backoff(first time.Duration, failures int) time.Duration {
	wait := first
	for range failures - 1 {
		wait = min(2*wait, longestBackoff)
	}
	return wait
}
