package cleanuppod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
)

// tend takes the next step for an ordinal with a cleanup pod.
func (in Input) tend(doc *api.Cleanup, o cleanup.Ordinal) plan.Plan {
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
func (in Input) release(doc *api.Cleanup, o cleanup.Ordinal, claims []*corev1.PersistentVolumeClaim) plan.Plan {
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
