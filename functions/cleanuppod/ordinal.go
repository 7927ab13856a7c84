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
)

// goOn takes the next step of a cleanup: with OrderedReady for one ordinal, the highest, with Parallel for several.
func (in Input) goOn(doc *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if doc.Request != cleanup.Digest(in.Set) { // what failed is tried again with the new template
		next := doc.Clone()
		next.Request = cleanup.Digest(in.Set)
		next.Ordinals = slices.DeleteFunc(next.Ordinals, func(e api.OrdinalStatus) bool { return given(&e) })
		return plan.Do(api.Retrying, in.store(next).Actions()...)
	}
	atOnce := 1
	if in.Set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		atOnce = max(1, in.Settings.CleanupPods)
	}
	// Those with a pod come first: an ordinal above them may have come later.
	tended, untended := []cleanup.Ordinal{}, []cleanup.Ordinal{}
	for _, o := range left {
		if in.tended(doc, o) {
			tended = append(tended, o)
		} else {
			untended = append(untended, o)
		}
	}
	wait := plan.Plan{}
	for i, o := range append(tended, untended...) {
		if i >= atOnce && i >= len(tended) {
			break
		}
		p := in.step(doc, o)
		switch {
		case in.Rejected != "" && isTry(p):
			return in.failed(doc, o, "the API server refuses: "+clip(in.Rejected))
		case p.Kind == plan.KindDo:
			return p
		case p.Kind == plan.KindWait && wait.Kind == "":
			wait = p
		}
	}
	if wait.Kind != "" {
		return wait
	}
	return in.conclude(doc, ordinals, left)
}

// isTry reports whether the plan makes a cleanup pod or deletes the claims: where the API server refuses that, a try has failed.
// Another write that it refuses, as one that removes a pod, does not become another one by being counted.
func isTry(p plan.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbCreate || a.Resource == plan.Claims })
}

// step takes the next step for an ordinal. A noop means that its cleanup has been given up.
func (in Input) step(doc *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	entry := entryOf(doc, o.Number)
	switch pod := o.Pod; {
	case in.tended(doc, o):
		return in.tend(doc, o)
	case given(entry):
		return plan.Noop(api.CleanupFailed)
	case pod != nil && statefulset.IsPodOf(pod, in.Set):
		return in.stop(doc, o)
	case pod != nil && in.stuck(pod):
		return in.obstructed(doc, o, api.ReplicaEnding, hangs(pod))
	case pod != nil && cleanup.LinkOf(pod, in.Name) != nil:
		return plan.Wait(api.CleanupCanceled, "pod %s of an earlier cleanup ends", pod.Name)
	case pod != nil:
		return in.obstructed(doc, o, api.NameTaken, fmt.Sprintf("pod %s has the replica's name and is not the set's; delete it, or let it end", pod.Name))
	case o.Missing(in.Set) != "":
		return in.giveUp(doc, o, api.OrdinalStatus{Reason: api.ClaimMissing, Message: fmt.Sprintf("claim %s is missing, on which the cleanup pod of ordinal %d was to run; "+
			"create it, or delete the ordinal's other claims yourself, then annotate the StatefulSet with %s", o.Missing(in.Set), o.Number, api.RetryAnnotation)})
	case in.user(o.Claims) != "":
		return in.obstructed(doc, o, api.ClaimBusy, in.user(o.Claims))
	case entry != nil && entry.NextTry != nil && in.Now.Before(entry.NextTry.Time):
		return plan.Wait(api.BackingOff, "ordinal %d is tried again at %s", o.Number, entry.NextTry.UTC().Format(time.RFC3339))
	}
	return in.start(doc, o)
}

// start makes the cleanup pod.
func (in Input) start(doc *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	template, _ := cleanup.Template(in.Set)
	pod := resources.MakeCleanupPod(in.Set, template, doc.Operation, o.Number, o.Claims)
	words, next := "", doc
	switch entry := entryOf(doc, o.Number); {
	case entry != nil && entry.NextTry != nil:
		words = fmt.Sprintf(", after %d failures", entry.Tries)
	case entry != nil && entry.Tries > 0: // what was in the way is gone, the failures before it count
		words = fmt.Sprintf(", after %d failures", entry.Tries)
		next = withEntry(doc, api.OrdinalStatus{Ordinal: o.Number, Tries: entry.Tries, Pod: entry.Pod, NextTry: operation.Moment(in.Now),
			Reason: api.CleanupTriedOnce, Message: entry.Message})
	case entry != nil:
		next = withoutEntry(doc, o.Number)
	}
	actions := append(in.store(next).Actions(), plan.Create(plan.Pods, pod),
		in.note(doc, api.CleanupStarted, false, "pod %s cleans up %s%s", pod.Name, ofClaims(namesOf(o.Claims)), words))
	return plan.Do(api.CleanupStarted, actions...)
}

// stop waits for the end of a replica. Those of a set that is being deleted are ended here: the StatefulSet controller leaves
// them alone, and the garbage collector, when it deletes in the background, waits for the set to be gone.
func (in Input) stop(doc *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	pod := o.Pod
	switch {
	case pod.DeletionTimestamp == nil && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.ReplicaEnding, plan.Delete(plan.Pods, pod))
	case in.stuck(pod):
		return in.obstructed(doc, o, api.ReplicaEnding, hangs(pod))
	case pod.DeletionTimestamp == nil && in.Now.Sub(doc.Started.Time) > in.Settings.StartTimeout:
		return in.obstructed(doc, o, api.ReplicaEnding, fmt.Sprintf("the StatefulSet controller has not stopped pod %s; with OrderedReady it waits for the pods below it", pod.Name))
	}
	return plan.Wait(api.ReplicaEnding, "pod %s is still there", pod.Name)
}

// stuck reports whether the pod should have ended some time ago and only its node keeps it.
func (in Input) stuck(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && !slices.Contains(pod.Finalizers, api.CleanupFinalizer) && in.Now.Sub(pod.DeletionTimestamp.Time) > in.Settings.StartTimeout
}

func hangs(pod *corev1.Pod) string {
	return fmt.Sprintf("pod %s was to end at %s and has not; look at its node", pod.Name, pod.DeletionTimestamp.UTC().Format(time.RFC3339))
}

// user says which pod uses one of the claims, beside one that is done; empty if none does.
func (in Input) user(claims []*corev1.PersistentVolumeClaim) string {
	for _, c := range claims {
		for _, p := range statefulset.Consumers(in.Pods, c.Name) {
			return fmt.Sprintf("pod %s uses claim %s; delete it, or let it end", p.Name, c.Name)
		}
	}
	return ""
}

// ofClaims names claims in a sentence.
func ofClaims(names []string) string {
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return fmt.Sprintf("claims %v", names)
}

// areKept names the ordinal's claims at the beginning of a sentence about them.
func areKept(o cleanup.Ordinal) string {
	names := ofClaims(namesOf(o.Claims))
	if len(o.Claims) == 1 {
		return names + " is"
	}
	return names + " are"
}

func namesOf(claims []*corev1.PersistentVolumeClaim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.Name
	}
	return names
}
