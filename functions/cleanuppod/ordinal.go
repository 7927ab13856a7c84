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

// round takes the next step of the cleanup of one ordinal.
type round struct{ Input }

func (in Input) round() round { return round{in} }

// continueCleanup returns the next step of a cleanup. With OrderedReady only the highest ordinal is cleaned up, with Parallel
// several at once.
func (r round) continueCleanup(record *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if record.Request != cleanup.Digest(r.Set) { // failed ordinals are tried again with the new template
		next := record.Clone()
		next.Request = cleanup.Digest(r.Set)
		next.Ordinals = slices.DeleteFunc(next.Ordinals, func(e api.OrdinalStatus) bool { return e.GivenUp })
		return plan.Do(api.Retrying, r.accounts().store(next).Actions()...)
	}
	atOnce := 1
	if r.Set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		atOnce = max(1, r.Settings.CleanupPods)
	}
	// Ordinals with a pod come first, because a higher ordinal may have been left behind later.
	withPod, withoutPod := []cleanup.Ordinal{}, []cleanup.Ordinal{}
	for _, o := range left {
		if r.hasCleanupPod(record, o) {
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
		p := r.stepOrdinal(record, o)
		switch {
		case r.Rejected != "" && countsAsTry(p):
			return r.countFailure(record, o, "the API server rejected a write: "+text.Clip(r.Rejected, maxQuotedBytes))
		case p.Kind == plan.KindDo:
			return p
		case p.Kind == plan.KindWait && wait.Kind == "":
			wait = p
		}
	}
	if wait.Kind != "" {
		return wait
	}
	return r.accounts().conclude(record, ordinals, left)
}

// countsAsTry reports whether the plan creates a cleanup pod or deletes claims. If the API server rejects such a write, the try
// failed. Counting other rejected writes, such as the removal of a pod, would not help: the same write would follow.
func countsAsTry(p plan.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbCreate || a.Resource == plan.Claims })
}

// stepOrdinal returns the next step for an ordinal. A noop means that its cleanup was given up.
func (r round) stepOrdinal(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	entry := entryOf(record, o.Number)
	switch pod := o.Pod; {
	case r.hasCleanupPod(record, o):
		return r.handlePod(record, o)
	case entry != nil && entry.GivenUp:
		return plan.Noop(api.CleanupFailed)
	case pod != nil && statefulset.IsPodOf(pod, r.Set):
		return r.stopReplica(record, o)
	case pod != nil && r.stuck(pod):
		return r.waitForObstacle(record, o, api.MemberEnding, stuckMessage(pod))
	case pod != nil && cleanup.LinkOf(pod, r.Name) != nil:
		return plan.Wait(api.CleanupCanceled, "pod %s of an earlier cleanup is terminating", pod.Name)
	case pod != nil:
		return r.waitForObstacle(record, o, api.NameTaken, fmt.Sprintf("pod %s has the member's name but does not belong to the set. "+
			"Delete it, or wait until it ends", pod.Name))
	case o.Missing(r.Set) != "":
		return r.giveUpOrdinal(record, o, api.OrdinalStatus{Reason: api.ClaimMissing,
			Message: fmt.Sprintf("claim %s is missing, so the cleanup pod of ordinal %d cannot run. "+
				"Create it, or delete the ordinal's other claims yourself, then retry with %s", o.Missing(r.Set), o.Number,
				operation.RetryCommand(r.Set))})
	case r.claimUser(o.Claims) != "":
		return r.waitForObstacle(record, o, api.ClaimBusy, r.claimUser(o.Claims))
	case entry != nil && entry.NextTry != nil && r.Now.Before(entry.NextTry.Time):
		return plan.Wait(api.BackingOff, "the next try for ordinal %d is at %s", o.Number, entry.NextTry.UTC().Format(time.RFC3339))
	}
	return r.startPod(record, o)
}

// startPod creates the cleanup pod.
func (r round) startPod(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	template, _ := cleanup.Template(r.Set)
	pod := resources.MakeCleanupPod(r.Set, template, record.Operation, o.Number, o.Claims)
	words, next := "", record
	switch entry := entryOf(record, o.Number); {
	case entry != nil && entry.NextTry != nil:
		words = ", after " + text.Number(int(entry.Tries), "failure", "failures")
	case entry != nil && entry.Tries > 0: // the obstacle is gone, and earlier failures still count
		words = ", after " + text.Number(int(entry.Tries), "failure", "failures")
		next = withEntry(record, api.OrdinalStatus{Ordinal: o.Number, Tries: entry.Tries, Pod: entry.Pod, NextTry: operation.Moment(r.Now),
			Reason: api.CleanupTried, Message: fmt.Sprintf("pod %s cleans up again%s", pod.Name, words)})
	case entry != nil:
		next = withoutEntry(record, o.Number)
	}
	actions := append(r.accounts().store(next).Actions(), plan.Create(plan.Pods, pod),
		r.accounts().note(record, api.CleanupStarted, false, "pod %s cleans up %s%s", pod.Name, ofClaims(namesOf(o.Claims)), words))
	return plan.Do(api.CleanupStarted, actions...)
}

// stopReplica waits until a replica has ended. It deletes the replicas of a set that is being deleted, because nothing else does: the
// StatefulSet controller ignores them, and the garbage collector, in background deletion, waits until the set is gone.
func (r round) stopReplica(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	pod := o.Pod
	switch {
	case pod.DeletionTimestamp == nil && r.Set.DeletionTimestamp != nil:
		return plan.Do(api.MemberEnding, plan.Delete(plan.Pods, pod))
	case r.stuck(pod):
		return r.waitForObstacle(record, o, api.MemberEnding, stuckMessage(pod))
	case pod.DeletionTimestamp == nil && r.Now.Sub(record.Started.Time) > r.Settings.StartTimeout:
		return r.waitForObstacle(record, o, api.MemberEnding, fmt.Sprintf("the StatefulSet controller has not stopped pod %s. "+
			"With OrderedReady it waits until the pods below are ready; check them", pod.Name))
	}
	return plan.Wait(api.MemberEnding, "pod %s has not ended yet", pod.Name)
}

// waitForObstacle reports an obstacle to the cleanup of an ordinal, waits until it is gone, and gives up after the deadline.
func (r round) waitForObstacle(record *api.Cleanup, o cleanup.Ordinal, reason api.Reason, message string) plan.Plan {
	entry := entryOf(record, o.Number)
	switch {
	case entry == nil || entry.Reason != reason:
		next := api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message,
			Deadline: operation.Moment(r.Now.Add(r.Settings.CleanupTimeout))}
		if entry != nil {
			next.Tries, next.Pod = entry.Tries, entry.Pod
		}
		if reason == api.ClaimBusy && o.Pod != nil { // only a pod that has succeeded waits for its claims
			next.Succeeded = o.Pod.UID
		}
		return plan.Do(reason, append(r.accounts().store(withEntry(record, next)).Actions(),
			r.accounts().note(record, reason, true, "%s", message))...)
	case entry.Deadline != nil && r.Now.After(entry.Deadline.Time):
		return r.giveUpOrdinal(record, o, api.OrdinalStatus{Tries: entry.Tries, Reason: reason, Message: message})
	}
	return plan.Wait(reason, "%s", message)
}

// countFailure counts a failed try, and schedules the next one if tries are left. There is no further try if the set wants the
// replica back, because the replica waits.
func (r round) countFailure(record *api.Cleanup, o cleanup.Ordinal, message string) plan.Plan {
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
	if next.Tries >= r.Settings.CleanupTries || o.Wanted {
		next.Reason = api.CleanupFailed
		next.Message = fmt.Sprintf("%s; %s kept. To try again: %s", message, claimsAre(o), operation.RetryCommand(r.Set))
		return r.giveUpOrdinal(record, o, next)
	}
	pause := operation.Backoff(r.Settings.CleanupBackoff, maxBackoff, next.Tries)
	next.Reason, next.NextTry = api.CleanupTried, operation.Moment(r.Now.Add(pause))
	return plan.Do(api.CleanupTried, append(r.accounts().store(withEntry(record, next)).Actions(),
		r.accounts().note(record, next.Reason, true, "%s", message))...)
}

// giveUpOrdinal ends the cleanup of an ordinal without success. Its claims are kept.
func (r round) giveUpOrdinal(record *api.Cleanup, o cleanup.Ordinal, entry api.OrdinalStatus) plan.Plan {
	entry.Ordinal, entry.GivenUp = o.Number, true
	p := plan.Do(entry.Reason, append(r.accounts().store(withEntry(record, entry)).Actions(),
		r.accounts().note(record, entry.Reason, true, "%s", entry.Message))...)
	p.Outcomes = []plan.Outcome{r.outcome(plan.Failed, o.Pod)}
	return p
}

// outcome returns the outcome of an ordinal's cleanup for the metrics. Its duration counts from the creation of the pod.
func (r round) outcome(result string, pod *corev1.Pod) plan.Outcome {
	outcome := plan.Outcome{Namespace: r.Set.Namespace, Set: r.Set.Name, Result: result}
	if pod != nil {
		outcome.Took = r.Now.Sub(pod.CreationTimestamp.Time)
	}
	return outcome
}

// maxBackoff is the same as the kubelet's for containers.
const maxBackoff = 5 * time.Minute
