package cleanuppod

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// continueCleanup returns the next step of a cleanup. With OrderedReady only the highest ordinal is cleaned up, with Parallel
// several at once.
func (in Input) continueCleanup(record *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if record.Request != cleanup.Digest(in.Set) { // failed ordinals are tried again with the new template
		next := record.Clone()
		next.Request = cleanup.Digest(in.Set)
		next.Ordinals = slices.DeleteFunc(next.Ordinals, func(e api.OrdinalStatus) bool { return e.GivenUp })
		return plan.Do(api.Retrying, in.store(next).Actions()...)
	}
	atOnce := 1
	if in.Set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		atOnce = max(1, in.Settings.CleanupPods)
	}
	// Ordinals with a pod come first, because a higher ordinal may have been left behind later.
	withPod, withoutPod := []cleanup.Ordinal{}, []cleanup.Ordinal{}
	for _, o := range left {
		if in.hasCleanupPod(record, o) {
			withPod = append(withPod, o)
		} else {
			withoutPod = append(withoutPod, o)
		}
	}
	wait := plan.Plan{}
	for i, o := range append(withPod, withoutPod...) {
		if i >= atOnce && i >= len(withPod) {
			break
		}
		p := in.stepOrdinal(record, o)
		switch {
		case in.Rejected != "" && countsAsTry(p):
			return in.countFailure(record, o, "the API server rejected a write: "+text.Clip(in.Rejected, maxQuotedBytes))
		case p.Kind == plan.KindDo:
			return p
		case p.Kind == plan.KindWait && wait.Kind == "":
			wait = p
		}
	}
	if wait.Kind != "" {
		return wait
	}
	return in.conclude(record, ordinals, left)
}

// countsAsTry reports whether the plan creates a cleanup pod or deletes claims. If the API server rejects such a write, the try
// failed. Counting other rejected writes, such as the removal of a pod, would not help: the same write would follow.
func countsAsTry(p plan.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbCreate || a.Resource == plan.Claims })
}

// stepOrdinal returns the next step for an ordinal. A noop means that its cleanup was given up.
func (in Input) stepOrdinal(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	entry := entryOf(record, o.Number)
	switch pod := o.Pod; {
	case in.hasCleanupPod(record, o):
		return in.handlePod(record, o)
	case entry != nil && entry.GivenUp:
		return plan.Noop(api.CleanupFailed)
	case pod != nil && statefulset.IsPodOf(pod, in.Set):
		return in.stopReplica(record, o)
	case pod != nil && in.stuck(pod):
		return in.waitForObstacle(record, o, api.MemberEnding, stuckMessage(pod))
	case pod != nil && cleanup.LinkOf(pod, in.Name) != nil:
		return plan.Wait(api.CleanupCanceled, "pod %s of an earlier cleanup is terminating", pod.Name)
	case pod != nil:
		return in.waitForObstacle(record, o, api.NameTaken, fmt.Sprintf("pod %s has the member's name but does not belong to the set. "+
			"Delete it, or wait until it ends", pod.Name))
	case o.Missing(in.Set) != "":
		return in.giveUpOrdinal(record, o, api.OrdinalStatus{Reason: api.ClaimMissing,
			Message: fmt.Sprintf("claim %s is missing, so the cleanup pod of ordinal %d cannot run. "+
				"Create it, or delete the ordinal's other claims yourself, then retry with %s", o.Missing(in.Set), o.Number,
				operation.RetryCommand(in.Set))})
	case in.claimUser(o.Claims) != "":
		return in.waitForObstacle(record, o, api.ClaimBusy, in.claimUser(o.Claims))
	case entry != nil && entry.NextTry != nil && in.Now.Before(entry.NextTry.Time):
		return plan.Wait(api.BackingOff, "the next try for ordinal %d is at %s", o.Number, entry.NextTry.UTC().Format(time.RFC3339))
	}
	return in.startPod(record, o)
}

// startPod creates the cleanup pod.
func (in Input) startPod(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	template, _ := cleanup.Template(in.Set)
	pod := resources.MakeCleanupPod(in.Set, template, record.Operation, o.Number, o.Claims)
	words, next := "", record
	switch entry := entryOf(record, o.Number); {
	case entry != nil && entry.NextTry != nil:
		words = ", after " + text.Number(int(entry.Tries), "failure", "failures")
	case entry != nil && entry.Tries > 0: // the obstacle is gone, and earlier failures still count
		words = ", after " + text.Number(int(entry.Tries), "failure", "failures")
		next = withEntry(record, api.OrdinalStatus{Ordinal: o.Number, Tries: entry.Tries, Pod: entry.Pod, NextTry: operation.Moment(in.Now),
			Reason: api.CleanupTried, Message: fmt.Sprintf("pod %s cleans up again%s", pod.Name, words)})
	case entry != nil:
		next = withoutEntry(record, o.Number)
	}
	actions := append(in.store(next).Actions(), plan.Create(plan.Pods, pod),
		in.note(record, api.CleanupStarted, false, "pod %s cleans up %s%s", pod.Name, ofClaims(namesOf(o.Claims)), words))
	return plan.Do(api.CleanupStarted, actions...)
}

// stopReplica waits until a replica has ended. It deletes the replicas of a set that is being deleted, because nothing else does: the
// StatefulSet controller ignores them, and the garbage collector, in background deletion, waits until the set is gone.
func (in Input) stopReplica(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	pod := o.Pod
	switch {
	case pod.DeletionTimestamp == nil && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.MemberEnding, plan.Delete(plan.Pods, pod))
	case in.stuck(pod):
		return in.waitForObstacle(record, o, api.MemberEnding, stuckMessage(pod))
	case pod.DeletionTimestamp == nil && in.Now.Sub(record.Started.Time) > in.Settings.StartTimeout:
		return in.waitForObstacle(record, o, api.MemberEnding, fmt.Sprintf("the StatefulSet controller has not stopped pod %s. "+
			"With OrderedReady it waits until the pods below are ready; check them", pod.Name))
	}
	return plan.Wait(api.MemberEnding, "pod %s has not ended yet", pod.Name)
}

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
