package detectresize

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// moments is for how long a volume that grows at once is waited for within an event. No event tells of a claim that has grown: it
// carries no mark of ours. The tick finds the others.
const moments = 20 * time.Second

// growing is the operation on the set whose claims grow on their volumes; nil if there is none.
func growing(in Input) *api.Resize {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return nil
	}
	if status, err := in.Status(); err == nil && status.Active() && status.Phase == api.Expanding {
		return status
	}
	return nil
}

// expand has every claim ask for more and waits until its volume, and the file system on it, have it. Of a claim nothing but the
// request is written.
func expand(in Input, status *api.Resize) plan.Plan {
	if status.FailedAt != "" {
		return takeBack(in, status)
	}
	if why, message := hopeless(in, status); why != "" {
		return giveUp(in, status, why, message)
	}
	next := status.Clone()
	var asks []plan.Action
	waiting := ""
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Method != api.MethodExpand || part.Settled() {
			continue
		}
		claim := in.Claim(part.Name)
		asks = append(asks, request(claim, part.To).Actions()...)
		if grown(in, claim, part) {
			part.Phase = api.ClaimExpanded
		} else {
			waiting = part.Name
		}
	}
	if len(asks) > 0 && !operation.Overdue(status, in.Now) {
		return plan.Do(api.ExpansionRunning, asks...)
	}
	if waiting == "" {
		return expanded(in, next)
	}
	if store := operation.Store(in.Set, next); !store.Empty() {
		return plan.Do(api.ExpansionRunning, store.Actions()...)
	}
	if pod := toRestart(in, status); pod != nil {
		message := fmt.Sprintf("pod %s is started again, because the file system on its volume grows only when it is mounted", pod.Name)
		return plan.Do(api.ReplicaRestarted, plan.Delete(plan.Pods, pod),
			plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: api.ReplicaRestarted, Message: message, UID: in.Set.UID, Operation: status.Operation}))
	}
	if operation.Overdue(status, in.Now) {
		return giveUp(in, status, api.DeadlineExceeded, fmt.Sprintf("the volumes did not grow within %s, the claims go on asking for it; look at kubectl describe pvc, "+
			"then ask again with the annotation %s; to have them copied instead, write %s=%s first", in.Settings.ExpandTimeout, api.RetryAnnotation, api.ResizeMethodAnnotation, api.MethodCopy))
	}
	p := plan.Wait(api.ExpansionRunning, "claim %s is growing", waiting)
	p.Soon = in.Now.Sub(status.Started.Time) < moments
	return p
}

// giveUp writes down why, before anything is taken back.
func giveUp(in Input, status *api.Resize, why api.Reason, message string) plan.Plan {
	next := status.Clone()
	next.FailedAt, next.Reason, next.Message = api.Expanding, why, message
	return plan.Do(why, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
}

// request has a claim ask for at least so much.
func request(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	if is := sts.Requested(claim); is.Cmp(size) < 0 {
		patch.Replace(sts.RequestPath, size.String(), fmt.Sprintf("request %s to %s", &is, &size))
	}
	return patch
}

// grown reports whether the claim has what it is to have. A file system that no pod has mounted grows when one does.
func grown(in Input, claim *corev1.PersistentVolumeClaim, part *api.ClaimStatus) bool {
	if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(part.To) >= 0 {
		return true
	}
	return request(claim, part.To).Empty() && sts.FileSystemPending(claim, part.To) != nil && len(in.Users(claim.Name)) == 0
}

// hopeless says why the expansion has to be given up, or nothing.
func hopeless(in Input, status *api.Resize) (api.Reason, string) {
	if _, abort := in.Set.Annotations[api.AbortAnnotation]; abort {
		return api.Aborted, "aborted; claims that have grown already stay as they are"
	}
	if in.Rejected != "" {
		return api.Rejected, "the API server refused a step: " + in.Rejected + "; mend the cause, then ask again with the annotation " + api.RetryAnnotation
	}
	for _, part := range status.Claims {
		claim := in.Claim(part.Name)
		switch {
		case part.Method != api.MethodExpand || part.Settled():
		case claim == nil || claim.UID != part.UID || claim.DeletionTimestamp != nil:
			return api.ClaimLost, fmt.Sprintf("claim %s was deleted or replaced while it was to grow; look at it, then ask again with the annotation %s",
				part.Name, api.RetryAnnotation)
		case request(claim, part.To).Empty() && sts.Infeasible(claim, part.To):
			return api.ExpandInfeasible, fmt.Sprintf("the storage of class %s cannot give claim %s its %s: %s. What is possible was done; ask for less, or write %s=%s "+
				"and ask again with %s", sts.ClassOf(claim), part.Name, &part.To, whyInfeasible(claim), api.ResizeMethodAnnotation, api.MethodCopy, api.RetryAnnotation)
		}
	}
	return "", ""
}

// whyInfeasible is what the claim's conditions say.
func whyInfeasible(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if (c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError) && c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc " + claim.Name
}

// toRestart is the pod whose file system does not grow under it, one at a time and the highest ordinal first; nil if there is
// none, or the set is not ready. A pod that was started after its volume had grown is not started again: it would not help.
func toRestart(in Input, status *api.Resize) *corev1.Pod {
	if !sts.Ready(in.Set) || !everyPodStays(in) {
		return nil
	}
	pending := slices.DeleteFunc(sts.ClaimsOf(in.Set, in.Claims), func(c sts.Claim) bool {
		part := status.Claim(c.Name)
		return part == nil || part.Method != api.MethodExpand || part.Settled()
	})
	slices.SortFunc(pending, func(a, b sts.Claim) int { return cmp.Compare(b.Ordinal, a.Ordinal) })
	for _, c := range pending {
		since := sts.FileSystemPending(c.PersistentVolumeClaim, status.Claim(c.Name).To)
		if since == nil || in.Now.Sub(since.Time) < in.Settings.ExpandPatience {
			continue
		}
		for _, pod := range in.Users(c.Name) {
			if sts.IsPodOf(pod, in.Set) && pod.DeletionTimestamp == nil && !pod.CreationTimestamp.After(since.Time) {
				return pod
			}
		}
	}
	return nil
}

// everyPodStays reports whether each replica's pod is there, is ready, and none is ending. The set's status is not enough: it is
// late, and in it a pod that ends counts as ready as long as its containers run
// (kubernetes pkg/controller/statefulset/stateful_set_control.go).
func everyPodStays(in Input) bool {
	pods := int32(0)
	for _, pod := range in.Pods {
		if !sts.IsPodOf(pod, in.Set) {
			continue
		}
		if pod.DeletionTimestamp != nil || !sts.PodReady(pod) {
			return false
		}
		pods++
	}
	return pods == sts.Replicas(in.Set)
}

// expanded goes on to the claims that need another volume and to the set's own templates, or ends the operation.
func expanded(in Input, next *api.Resize) plan.Plan {
	next.Reason, next.Message = api.ClaimsExpanded, operation.Summary(next, in.Settings.Retention)
	if next.Recreate && sts.TwoRevisions(in.Set) && !operation.Overdue(next, in.Now) {
		return plan.Wait(api.RolloutRunning, "a partition keeps replicas of an older revision")
	}
	if next.Recreate || !next.Live() {
		next.Message = "every claim that can has grown on its volume"
		return hand(in, next)
	}
	next.Phase, next.Reason, next.Deadline, next.Finished = api.Succeeded, api.ResizeCompleted, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.DeadLettersAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, false))...).Then(events.RestoreCompleted, next.Operation)
}

// takeBack has the claims whose volumes will not grow ask for as little as they may, so that nobody goes on trying, and ends the
// operation. After a deadline they are left as they are: the storage may be slow.
func takeBack(in Input, status *api.Resize) plan.Plan {
	var lowers []plan.Action
	for _, part := range status.Claims {
		claim := in.Claim(part.Name)
		if part.Method != api.MethodExpand || claim == nil || claim.UID != part.UID || !takesBack(status.Reason, claim, part.To) {
			continue
		}
		asks, least := sts.Requested(claim), sts.Smallest(claim, part.From)
		if asks.Cmp(least) > 0 {
			lowers = append(lowers, plan.PatchOf(plan.Claims, claim).Replace(sts.RequestPath, least.String(), fmt.Sprintf("request %s to %s", &asks, &least)).Actions()...)
		}
	}
	next := status.Clone()
	if len(lowers) > 0 && in.Rejected == "" {
		return plan.Do(status.Reason, lowers...)
	}
	if in.Rejected != "" && status.Reason != api.Rejected {
		next.Message += ". The claims go on asking for it: " + in.Rejected
	}
	next.Phase, next.Deadline, next.Finished = api.Failed, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation)
}

// takesBack reports whether the claim is to stop asking.
func takesBack(reason api.Reason, claim *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	asks := sts.Requested(claim)
	tried := sts.Growing(claim) && sts.FileSystemPending(claim, size) == nil && asks.Cmp(size) <= 0 // more is somebody else's wish
	return tried && (reason == api.Aborted || reason == api.ExpandInfeasible && sts.Infeasible(claim, size))
}
