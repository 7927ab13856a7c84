package cleanuppod

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/statefulset"
)

// handlePod returns the next step for an ordinal with a cleanup pod.
func (r round) handlePod(record *api.Cleanup, o cleanup.Ordinal) plan.Plan {
	pod, entry := o.Pod, entryOf(record, o.Number)
	verdict, why := podend.Judge(r.Now, pod, r.Kills)
	succeeded := verdict == podend.Succeeded || entry != nil && entry.Succeeded == pod.UID
	claims := cleanup.Ordinal{Claims: cleanup.ClaimsOfLink(cleanup.LinkOf(pod, r.Name), o.Claims)}.Kept()
	switch {
	case entry != nil && entry.GivenUp:
		if p := removePod(pod); p.Kind == plan.KindDo {
			return p
		}
		return plan.Noop(api.CleanupFailed) // the pod is removed; nothing is left to do
	case r.stuck(pod):
		return r.waitForObstacle(record, o, api.MemberEnding, stuckMessage(pod))
	case succeeded && len(claims) > 0:
		return r.deleteClaims(record, o, claims)
	case succeeded && pod.DeletionTimestamp == nil: // its claims are gone
		p := plan.Do(api.ClaimsDeleted, append(r.accounts().store(withoutEntry(record, o.Number)).Actions(), plan.Delete(plan.Pods, pod))...)
		p.Outcomes = []plan.Outcome{r.outcome(plan.Succeeded, pod)}
		return p
	case entry != nil && entry.Pod == pod.UID, pod.DeletionTimestamp != nil && len(claims) == 0:
		return removePod(pod)
	case o.Wanted && cleanup.Cancels(r.Set):
		p := removePod(pod)
		if pod.DeletionTimestamp == nil {
			p.Actions = append(p.Actions, r.accounts().note(record, api.CleanupCanceled, false,
				"the member is needed again: pod %s is stopped, %s kept",
				pod.Name, claimsAre(o)))
		}
		return p
	}
	switch verdict {
	case podend.Pending:
		return plan.WaitSoon(api.CleanupRunning, "pod %s %s", pod.Name, why)
	case podend.Unproven:
		return r.countFailure(record, o, fmt.Sprintf("cleanup pod %s %s, so it may not have finished its work", pod.Name, why))
	}
	if trouble := r.tryFailure(entry, pod); trouble != "" {
		return r.countFailure(record, o, trouble)
	}
	if o.Wanted && entry == nil {
		entry := api.OrdinalStatus{Ordinal: o.Number, Reason: api.ScaleUpWaits, Message: fmt.Sprintf(
			"member %s waits until its cleanup has ended, and then starts on new claims. To start it on its previous claims, set annotation %s=%s",
			pod.Name, api.CleanupOnScaleUpAnnotation, api.OnScaleUpCancel)}
		return plan.Do(api.ScaleUpWaits, append(r.accounts().store(withEntry(record, entry)).Actions(),
			r.accounts().note(record, api.ScaleUpWaits, true, "%s", entry.Message))...)
	}
	return plan.Wait(api.CleanupRunning, "pod %s is %s", pod.Name, pod.Status.Phase)
}

// deleteClaims deletes the claims after the cleanup pod succeeded. The pod keeps the replica's name until the claims are gone, and
// claim protection keeps the claims until the pod is gone (kubernetes pkg/controller/volume/pvcprotection). So no replica can start
// on a claim that is being deleted.
func (r round) deleteClaims(record *api.Cleanup, o cleanup.Ordinal, claims []*corev1.PersistentVolumeClaim) plan.Plan {
	if entry := entryOf(record, o.Number); entry != nil && entry.NextTry != nil && r.Now.Before(entry.NextTry.Time) {
		return plan.Wait(api.BackingOff, "its claims are deleted at %s", entry.NextTry.UTC().Format(time.RFC3339))
	}
	if user := r.claimUser(claims); user != "" {
		return r.waitForObstacle(record, o, api.ClaimBusy, user)
	}
	names := ofClaims(namesOf(claims))
	actions := []plan.Action{r.accounts().note(record, api.CleanupDone, false, "pod %s succeeded on %s", o.Pod.Name, names)}
	for _, c := range claims {
		actions = append(actions, plan.Delete(plan.Claims, c))
	}
	return plan.Do(api.CleanupDone, append(actions, r.accounts().note(record, api.ClaimsDeleted, false,
		"%s deleted after the cleanup of ordinal %d",
		names, o.Number))...)
}

// claimUser returns a message about an unfinished pod that uses one of the claims, or "".
func (r round) claimUser(claims []*corev1.PersistentVolumeClaim) string {
	for _, c := range claims {
		for _, p := range statefulset.Consumers(r.Pods, c.Name) {
			return fmt.Sprintf("pod %s uses claim %s. Delete the pod, or wait until it ends", p.Name, c.Name)
		}
	}
	return ""
}

// ofClaims names the claims in words.
func ofClaims(names []string) string {
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return "claims " + strings.Join(names, ", ")
}

// claimsAre names the ordinal's claims, followed by "is" or "are".
func claimsAre(o cleanup.Ordinal) string {
	names := ofClaims(namesOf(o.Claims))
	if len(o.Claims) == 1 {
		return names + " is"
	}
	return names + " are"
}

// namesOf returns the names of the claims.
func namesOf(claims []*corev1.PersistentVolumeClaim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.Name
	}
	return names
}
