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

// waitForObstacle reports an obstacle to the cleanup of an ordinal, waits until it is gone, and gives up after the deadline.
func (in Input) waitForObstacle(record *api.Cleanup, o cleanup.Ordinal, reason api.Reason, message string) plan.Plan {
	entry := entryOf(record, o.Number)
	switch {
	case entry == nil || entry.Reason != reason:
		next := api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message,
			Deadline: operation.Moment(in.Now.Add(in.Settings.CleanupTimeout))}
		if entry != nil {
			next.Tries, next.Pod = entry.Tries, entry.Pod
		}
		if reason == api.ClaimBusy && o.Pod != nil { // only a pod that has succeeded waits for its claims
			next.Succeeded = o.Pod.UID
		}
		return plan.Do(reason, append(in.store(withEntry(record, next)).Actions(), in.note(record, reason, true, "%s", message))...)
	case entry.Deadline != nil && in.Now.After(entry.Deadline.Time):
		return in.giveUpOrdinal(record, o, api.OrdinalStatus{Tries: entry.Tries, Reason: reason, Message: message})
	}
	return plan.Wait(reason, "%s", message)
}

// countFailure counts a failed try, and schedules the next one if tries are left. There is no further try if the set wants the
// replica back, because the replica waits.
func (in Input) countFailure(record *api.Cleanup, o cleanup.Ordinal, message string) plan.Plan {
	next, entry := api.OrdinalStatus{Ordinal: o.Number, Tries: 1, Message: message}, entryOf(record, o.Number)
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
		next.Message = fmt.Sprintf("%s; %s kept. To try again: %s", message, claimsAre(o), operation.RetryCommand(in.Set))
		return in.giveUpOrdinal(record, o, next)
	}
	pause := operation.Backoff(in.Settings.CleanupBackoff, maxBackoff, next.Tries)
	next.Reason, next.NextTry = api.CleanupTried, operation.Moment(in.Now.Add(pause))
	return plan.Do(api.CleanupTried, append(in.store(withEntry(record, next)).Actions(),
		in.note(record, next.Reason, true, "%s", message))...)
}

// giveUpOrdinal ends the cleanup of an ordinal without success. Its claims are kept.
func (in Input) giveUpOrdinal(record *api.Cleanup, o cleanup.Ordinal, entry api.OrdinalStatus) plan.Plan {
	entry.Ordinal, entry.GivenUp = o.Number, true
	p := plan.Do(entry.Reason, append(in.store(withEntry(record, entry)).Actions(),
		in.note(record, entry.Reason, true, "%s", entry.Message))...)
	p.Outcomes = []plan.Outcome{in.outcome(plan.Failed, o.Pod)}
	return p
}

// outcome returns the outcome of an ordinal's cleanup for the metrics. Its duration counts from the creation of the pod.
func (in Input) outcome(result string, pod *corev1.Pod) plan.Outcome {
	outcome := plan.Outcome{Namespace: in.Set.Namespace, Set: in.Set.Name, Result: result}
	if pod != nil {
		outcome.Took = in.Now.Sub(pod.CreationTimestamp.Time)
	}
	return outcome
}

// maxBackoff is the same as the kubelet's for containers.
const maxBackoff = 5 * time.Minute
