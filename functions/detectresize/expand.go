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

// moments is how long an event waits for volumes that grow at once. A claim that grows carries no label of Drydock, so no event follows
// when it has grown: the tick finds the slower ones.
const moments = 20 * time.Second

// growing is the operation on the set whose claims grow on their volumes; nil if there is none.
func growing(in Input) *api.Resize {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return nil
	}
	if record, err := in.Record(); err == nil && record != nil && record.Phase == api.Expanding {
		return record
	}
	return nil
}

// expand has every claim ask for more and waits until its volume, and the file system on it, have grown. It writes nothing of a claim but
// its request.
func expand(in Input, record *api.Resize) plan.Plan {
	if record.FailedAt != "" {
		return takeBack(in, record)
	}
	if why, message := hopeless(in, record); why != "" {
		return giveUp(in, record, why, message)
	}
	next := record.Clone()
	asks, waiting := askAndLook(in, next)
	if len(asks) > 0 && !operation.Overdue(record, in.Now) {
		return plan.Do(api.ExpansionRunning, asks...)
	}
	if waiting == "" {
		return expanded(in, next)
	}
	if store := operation.Store(in.Set, next); !store.Empty() {
		return plan.Do(api.ExpansionRunning, store.Actions()...)
	}
	byGrowth := api.AskedByGrowth(in.Set, record.Request)
	switch pod := toRestart(in, record); {
	case pod != nil && byGrowth && !operation.Overdue(record, in.Now):
		return plan.Do(api.ExpansionRunning, warn(in, record.Operation, api.FileSystemWaits, fmt.Sprintf("the volume of pod %s has grown, and the file "+
			"system on it grows only when it is mounted. No pod is restarted for growth by usage: restart it", pod.Name)))
	case pod != nil && !byGrowth:
		message := fmt.Sprintf("pod %s is started again, because the file system on its volume grows only when it is mounted", pod.Name)
		return plan.Do(api.ReplicaRestarted, plan.Evict(pod),
			plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: api.ReplicaRestarted, Message: message, UID: in.Set.UID,
				Operation: record.Operation}))
	}
	if operation.Overdue(record, in.Now) {
		return giveUp(in, record, api.DeadlineExceeded, fmt.Sprintf("the volumes did not grow within %s, the claims go on asking for it; look "+
			"at kubectl describe pvc, then ask again with the annotation %s; to have them copied instead, write %s=%s first",
			in.Settings.ExpandTimeout, api.RetryAnnotation, api.ResizeMethodAnnotation, api.MethodCopy))
	}
	p := plan.Wait(api.ExpansionRunning, "claim %s is growing", waiting)
	p.Soon = in.Now.Sub(record.Started.Time) < moments
	return p
}

// askAndLook returns the requests that claims lack, marks the expansions that are done, and returns a claim that still grows; empty if none
// does.
func askAndLook(in Input, next *api.Resize) (asks []plan.Action, waiting string) {
	for i := range next.Expansions {
		e := &next.Expansions[i]
		if e.Done {
			continue
		}
		claim := in.Claim(e.Claim)
		asks = append(asks, request(claim, e.To).Actions()...)
		if e.Done = grown(in, claim, e); !e.Done {
			waiting = e.Claim
		}
	}
	return asks, waiting
}

// giveUp writes down why, before anything is taken back.
func giveUp(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := record.Clone()
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

// grown reports whether the claim has its new size. A file system that no pod has mounted grows when one does, and counts as grown.
func grown(in Input, claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(e.To) >= 0 {
		return true
	}
	return request(claim, e.To).Empty() && sts.FileSystemPending(claim, e.To) != nil && len(in.Users(claim.Name)) == 0
}

// hopeless says why the expansion has to be given up, or nothing.
func hopeless(in Input, record *api.Resize) (api.Reason, string) {
	if _, abort := in.Set.Annotations[api.AbortAnnotation]; abort {
		return api.Aborted, "aborted; claims that have grown already stay as they are"
	}
	if in.Rejected != "" {
		return api.Rejected, "the API server refused a step: " + in.Rejected + "; mend the cause, then ask again with the annotation " +
			api.RetryAnnotation
	}
	for _, e := range record.Expansions {
		claim := in.Claim(e.Claim)
		switch {
		case e.Done:
		case claim == nil || claim.UID != e.UID || claim.DeletionTimestamp != nil:
			return api.ClaimLost, fmt.Sprintf("claim %s was deleted or replaced while it was to grow; look at it, then ask again with the "+
				"annotation %s", e.Claim, api.RetryAnnotation)
		case request(claim, e.To).Empty() && sts.Infeasible(claim, e.To):
			return api.ExpandInfeasible, fmt.Sprintf("the storage of class %s cannot give claim %s its %s: %s. Other claims may have grown. Ask "+
				"for less, or write %s=%s "+
				"and ask again with %s", sts.ClassOf(claim), e.Claim, &e.To, whyInfeasible(claim), api.ResizeMethodAnnotation, api.MethodCopy,
				api.RetryAnnotation)
		}
	}
	return "", ""
}

// whyInfeasible returns the storage's error from the claim's conditions.
func whyInfeasible(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if (c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError) &&
			c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc " + claim.Name
}

// toRestart is the pod whose file system does not grow under it, one at a time and the highest ordinal first; nil if there is
// none, or another member is not ready. A pod that was started after its volume had grown is not started again: it would not help. One
// that uses a claim that is being deleted is not either: its replacement would get an empty one.
func toRestart(in Input, record *api.Resize) *corev1.Pod {
	var pending []api.Expansion
	for _, e := range record.Expansions {
		if !e.Done {
			pending = append(pending, e)
		}
	}
	ordinal := func(e api.Expansion) int { _, n, _ := sts.ParseClaimName(in.Set, e.Claim); return n }
	slices.SortFunc(pending, func(a, b api.Expansion) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	for _, e := range pending {
		since := sts.FileSystemPending(in.Claim(e.Claim), e.To)
		pod := in.MemberPod(ordinal(e))
		if since == nil || in.Now.Sub(since.Time) < in.Settings.ExpandPatience || pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if sts.IsPodOf(pod, in.Set) && !pod.CreationTimestamp.After(since.Time) && in.Unsteady(ordinal(e)) == "" && in.Budget == "" &&
			len(in.LeavingClaims(ordinal(e))) == 0 {
			return pod
		}
	}
	return nil
}

// expanded hands the operation on if claims need another volume or the set other templates; else it ends the operation.
func expanded(in Input, next *api.Resize) plan.Plan {
	next.Reason, next.Message = api.ClaimsExpanded, operation.Summary(next, in.Settings.Retention)
	if next.ReplaceSet && sts.TwoRevisions(in.Set) && !operation.Overdue(next, in.Now) {
		return plan.Wait(api.RolloutRunning, "a partition keeps replicas of an older revision")
	}
	if next.ReplaceSet || len(next.Members) > 0 {
		next.Message = "every claim that can has grown on its volume"
		return hand(in, next)
	}
	next.Phase, next.Reason, next.Deadline, next.Finished = api.Succeeded, api.ResizeCompleted, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.DeadLettersAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, false))...).Then(events.RestoreCompleted,
		next.Operation)
}

// takeBack lowers the requests of claims whose volumes will not grow, as far as Kubernetes allows, so that the storage stops trying, and
// ends the operation. After a deadline the requests stay: the storage may be slow.
func takeBack(in Input, record *api.Resize) plan.Plan {
	var lowers []plan.Action
	for _, e := range record.Expansions {
		claim := in.Claim(e.Claim)
		if claim == nil || claim.UID != e.UID || !takesBack(record.Reason, claim, e.To) {
			continue
		}
		asks, least := sts.Requested(claim), sts.Smallest(claim, e.From)
		if asks.Cmp(least) > 0 {
			lowers = append(lowers, plan.PatchOf(plan.Claims, claim).Replace(sts.RequestPath, least.String(),
				fmt.Sprintf("request %s to %s", &asks, &least)).Actions()...)
		}
	}
	next := record.Clone()
	if len(lowers) > 0 && in.Rejected == "" {
		return plan.Do(record.Reason, lowers...)
	}
	if in.Rejected != "" && record.Reason != api.Rejected {
		next.Message += ". The claims still ask for it: " + in.Rejected
	}
	next.Phase, next.Deadline, next.Finished = api.Failed, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation)
}

// takesBack reports whether the claim is to stop asking.
func takesBack(reason api.Reason, claim *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	asks := sts.Requested(claim)
	tried := sts.Growing(claim) && sts.FileSystemPending(claim, size) == nil && asks.Cmp(size) <= 0 // another process has asked for more
	return tried && (reason == api.Aborted || reason == api.ExpandInfeasible && sts.Infeasible(claim, size))
}
