package cleanuppod

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

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
