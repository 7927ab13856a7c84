package cleanuppod

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// goOn takes the next step of a cleanup: with OrderedReady for one ordinal, the highest, with Parallel for several.
func (in Input) goOn(doc *api.Status, ordinals, left []cleanup.Ordinal) plan.Plan {
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
func (in Input) step(doc *api.Status, o cleanup.Ordinal) plan.Plan {
	entry := entryOf(doc, o.Number)
	switch pod := o.Pod; {
	case in.tended(doc, o):
		return in.tend(doc, o)
	case given(entry):
		return plan.Noop(api.CleanupFailed)
	case pod != nil && sts.IsPodOf(pod, in.Set):
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
func (in Input) start(doc *api.Status, o cleanup.Ordinal) plan.Plan {
	template, _ := cleanup.Template(in.Set)
	pod := resources.MakeCleanupPod(in.Set, template, doc.Operation, o.Number, o.Claims)
	words, next := "", doc
	switch entry := entryOf(doc, o.Number); {
	case entry != nil && entry.NextTry != nil:
		words = fmt.Sprintf(", after %d failures", entry.Tries)
	case entry != nil && entry.Tries > 0: // what was in the way is gone, the failures before it count
		words = fmt.Sprintf(", after %d failures", entry.Tries)
		next = withEntry(doc, api.OrdinalStatus{Ordinal: o.Number, Tries: entry.Tries, Pod: entry.Pod, NextTry: plan.Moment(in.Now),
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
func (in Input) stop(doc *api.Status, o cleanup.Ordinal) plan.Plan {
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

// tend takes the next step for an ordinal with a cleanup pod.
func (in Input) tend(doc *api.Status, o cleanup.Ordinal) plan.Plan {
	pod, entry := o.Pod, entryOf(doc, o.Number)
	succeeded := hasSucceeded(pod)
	claims := cleanup.Ordinal{Claims: cleanup.Tended(cleanup.LinkOf(pod, in.Name), o.Claims)}.Kept()
	switch {
	case given(entry):
		if p := dismiss(pod); p.Kind == plan.KindDo {
			return p
		}
		return plan.Noop(api.CleanupFailed) // nothing more can be done for it
	case in.stuck(pod):
		return in.obstructed(doc, o, api.ReplicaEnding, hangs(pod))
	case succeeded && len(claims) > 0:
		return in.release(doc, o, claims)
	case succeeded && pod.DeletionTimestamp == nil:
		p := plan.Do(api.ClaimsDeleted, append(in.store(withoutEntry(doc, o.Number)).Actions(), plan.Delete(plan.Pods, pod))...)
		p.Outcomes = []plan.Outcome{in.outcome(plan.Succeeded, pod)}
		return p
	case pod.DeletionTimestamp != nil, entry != nil && entry.Pod == pod.UID:
		return dismiss(pod)
	case o.Wanted && cleanup.Cancels(in.Set):
		p := dismiss(pod)
		p.Actions = append(p.Actions, in.note(doc, api.CleanupCanceled, false, "the replica is wanted back: pod %s is stopped, %s kept", pod.Name, areKept(o)))
		return p
	}
	if trouble := in.trouble(entry, pod); trouble != "" {
		return in.failed(doc, o, trouble)
	}
	if o.Wanted && entry == nil {
		entry := api.OrdinalStatus{Ordinal: o.Number, Reason: api.ScaleUpWaits, Message: fmt.Sprintf(
			"replica %s is wanted and waits until its cleanup has ended; it starts on fresh claims. With annotation %s=%s it would get back those it had",
			pod.Name, api.CleanupOnScaleUpAnnotation, api.OnScaleUpCancel)}
		return plan.Do(api.ScaleUpWaits, append(in.store(withEntry(doc, entry)).Actions(), in.note(doc, api.ScaleUpWaits, true, "%s", entry.Message))...)
	}
	return plan.Wait(api.CleanupRunning, "pod %s is %s", pod.Name, pod.Status.Phase)
}

// release deletes the claims that a cleanup pod has succeeded on. The pod holds the replica's name until they are gone, and
// claim protection holds the claims until the pod is (kubernetes pkg/controller/volume/pvcprotection): no replica can start on
// one that is about to go.
func (in Input) release(doc *api.Status, o cleanup.Ordinal, claims []*corev1.PersistentVolumeClaim) plan.Plan {
	if entry := entryOf(doc, o.Number); entry != nil && entry.NextTry != nil && in.Now.Before(entry.NextTry.Time) {
		return plan.Wait(api.BackingOff, "its claims are deleted at %s", entry.NextTry.UTC().Format(time.RFC3339))
	}
	if user := in.user(claims); user != "" {
		return in.obstructed(doc, o, api.ClaimBusy, user)
	}
	names := ofClaims(namesOf(claims))
	actions := []plan.Action{in.note(doc, api.CleanupDone, false, "pod %s succeeded on %s", o.Pod.Name, names)}
	for _, c := range claims {
		actions = append(actions, plan.Delete(plan.Claims, c))
	}
	return plan.Do(api.CleanupDone, append(actions, in.note(doc, api.ClaimsDeleted, false, "%s deleted after the cleanup of ordinal %d", names, o.Number))...)
}

// user says which pod uses one of the claims, beside one that is done; empty if none does.
func (in Input) user(claims []*corev1.PersistentVolumeClaim) string {
	for _, c := range claims {
		for _, p := range sts.Consumers(in.Pods, c.Name) {
			return fmt.Sprintf("pod %s uses claim %s; delete it, or let it end", p.Name, c.Name)
		}
	}
	return ""
}

// obstructed tells what is in the way of a cleanup, and gives it up after a time.
func (in Input) obstructed(doc *api.Status, o cleanup.Ordinal, reason api.Reason, message string) plan.Plan {
	entry := entryOf(doc, o.Number)
	switch {
	case entry == nil || entry.Reason != reason:
		next := api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message, Deadline: plan.Moment(in.Now.Add(in.Settings.CleanupTimeout))}
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
func (in Input) failed(doc *api.Status, o cleanup.Ordinal, message string) plan.Plan {
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
	next.Reason, next.NextTry = api.CleanupTriedOnce, plan.Moment(in.Now.Add(backoff(in.Settings.CleanupBackoff, next.Tries)))
	return plan.Do(api.CleanupTriedOnce, append(in.store(withEntry(doc, next)).Actions(), in.note(doc, next.Reason, true, "%s", message))...)
}

// giveUp ends the cleanup of an ordinal. Its claims are kept.
func (in Input) giveUp(doc *api.Status, o cleanup.Ordinal, entry api.OrdinalStatus) plan.Plan {
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
