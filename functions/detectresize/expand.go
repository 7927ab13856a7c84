package detectresize

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// soonPeriod is how long an event waits for volumes that grow at once. A growing claim has no label of Drydock, so its growth causes no
// event. The tick finds claims that grow more slowly.
const soonPeriod = 20 * time.Second

// expandingRecord returns the record of an operation whose claims grow in place, or nil.
func expandingRecord(in Input) *api.Resize {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return nil
	}
	if record, err := in.Record(); err == nil && record != nil && record.Phase == api.Expanding {
		return record
	}
	return nil
}

// expandClaims writes the new size and VolumeAttributesClass into every claim, and waits until its volume and file system have them. It
// changes nothing else of a claim.
func expandClaims(in Input, record *api.Resize) plan.Plan {
	if record.FailedAt != "" {
		return endFailed(in, record)
	}
	if reason, message := failureReason(in, record); reason != "" {
		return fail(in, record, reason, message)
	}
	next := record.Clone()
	requests, waiting := requestSizes(in, next)
	if len(requests) > 0 && !operation.Overdue(record, in.Now) {
		return plan.Do(api.ExpansionRunning, requests...)
	}
	if waiting == nil {
		return completeExpansion(in, next)
	}
	if store := operation.Store(in.Set, next); !store.Empty() {
		return plan.Do(api.ExpansionRunning, store.Actions()...)
	}
	byGrowth := record.IsGrowth()
	pod, obstacle := podToRestart(in, record)
	switch {
	case pod != nil && byGrowth && !operation.Overdue(record, in.Now):
		return plan.Do(api.ExpansionRunning, warn(in, record.Operation, api.FileSystemWaits,
			fmt.Sprintf("the volume of pod %s has grown, but its file "+
				"system grows only when it is mounted, and growth by usage restarts no pod. Restart the pod", pod.Name)))
	case pod != nil && !byGrowth && obstacle == "":
		message := fmt.Sprintf("pod %s is restarted, because the file system on its volume grows only when it is mounted", pod.Name)
		return plan.Do(api.MemberRestarted, plan.Evict(pod),
			plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Reason: api.MemberRestarted, Message: message, UID: in.Set.UID,
				Operation: record.Operation}))
	case pod != nil && !byGrowth && !operation.Overdue(record, in.Now):
		if store := operation.Store(in.Set, closeGate(next, pod, obstacle)); !store.Empty() {
			return plan.Do(api.GateClosed, store.Actions()...)
		}
		return plan.Wait(api.GateClosed, "%s", record.Message)
	}
	if operation.Overdue(record, in.Now) {
		return fail(in, record, api.DeadlineExceeded, timeoutMessage(in, record, waiting))
	}
	p := plan.Wait(api.ExpansionRunning, "claim %s is growing", waiting.Claim)
	if hasGrown(in, in.Claim(waiting.Claim), waiting) {
		p = plan.Wait(api.ExpansionRunning, "claim %s is getting VolumeAttributesClass %s", waiting.Claim, *waiting.Attributes)
	}
	p.Soon = in.Now.Sub(record.Started.Time) < soonPeriod
	return p
}

// requestSizes returns the writes that make claims request their new sizes and classes. It marks finished expansions in the record and
// returns an unfinished one, or nil if all are finished.
func requestSizes(in Input, next *api.Resize) (requests []plan.Action, waiting *api.Expansion) {
	for i := range next.Expansions {
		e := &next.Expansions[i]
		if e.Done {
			continue
		}
		claim := in.Claim(e.Claim)
		requests = append(requests, requestPatch(claim, e).Actions()...)
		if e.Done = hasGrown(in, claim, e) && hasAttributes(claim, e); !e.Done {
			waiting = e
		}
	}
	return requests, waiting
}

// timeoutMessage returns the message for an expansion that missed its deadline.
func timeoutMessage(in Input, record *api.Resize, e *api.Expansion) string {
	if hasGrown(in, in.Claim(e.Claim), e) {
		return fmt.Sprintf("claim %s did not get VolumeAttributesClass %s within %s and still requests it; its driver may be unable to modify "+
			"volumes. Look at kubectl describe pvc -n %s %s, then %s", e.Claim, *e.Attributes, in.Settings.ExpandTimeout, in.Set.Namespace,
			e.Claim, operation.HowToRetry(in.Set.Namespace, record))
	}
	claim := in.Claim(e.Claim)
	switch pod, obstacle := podToRestart(in, record); {
	case !operation.RequestSize(claim, e.To).Empty():
		requested := statefulset.Requested(claim)
		return fmt.Sprintf("claim %s still requests %s, because no write has changed that within %s. Look at the log of detect-resize, then %s",
			e.Claim, &requested, in.Settings.ExpandTimeout, operation.HowToRetry(in.Set.Namespace, record))
	case pod != nil && obstacle == "": // growth by usage restarts no pod
		return fmt.Sprintf("the volume of pod %s has grown, but its file system grows only when it is mounted, and the pod was not restarted "+
			"within %s. Restart the pod", pod.Name, in.Settings.ExpandTimeout)
	case pod != nil:
		return fmt.Sprintf("%s. The wait exceeded %s. Delete the pod to let the file system grow, or %s",
			closeGate(record.Clone(), pod, obstacle).Message, in.Settings.ExpandTimeout, operation.HowToRetry(in.Set.Namespace, record))
	}
	return fmt.Sprintf("claim %s did not grow within %s: %s. The claims still request the new size: look at the storage, then %s. If the "+
		"storage cannot expand a volume in use, first set %s=%s, or %s to copy the volumes", e.Claim, in.Settings.ExpandTimeout,
		operation.WhyNotGrown(in.Claim(e.Claim)), operation.HowToRetry(in.Set.Namespace, record), api.ResizeMethodAnnotation,
		api.MethodExpandOffline, api.MethodCopy)
}

// fail stores the reason of the failure in the record. The next step lowers the requests that the storage has refused.
func fail(in Input, record *api.Resize, reason api.Reason, message string) plan.Plan {
	next := record.Clone()
	next.FailedAt, next.Reason, next.Message = api.Expanding, reason, message
	return plan.Do(reason, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
}

// endFailed ends the failed operation. Claims stop requesting a size that the storage has refused, so that it stops trying. The others
// keep their requests. The storage finishes their growth, so they request what their volumes will have, and a smaller size is known to
// need a copy.
func endFailed(in Input, record *api.Resize) plan.Plan {
	var requests []plan.Action
	for i := range record.Expansions {
		e := &record.Expansions[i]
		if claim := in.Claim(e.Claim); claim != nil && claim.UID == e.UID {
			patch := operation.LowerRequest(claim, e.From)
			withdrawAttributes(record.Reason, patch, claim, e)
			requests = append(requests, patch.Actions()...)
		}
	}
	next := record.Clone()
	if len(requests) > 0 && in.Rejected == "" {
		return plan.Do(record.Reason, requests...)
	}
	if in.Rejected != "" && record.Reason != api.Rejected {
		next.Message += ". The API server rejected the change of the claims' requests: " + in.Rejected
	}
	next.Phase, next.Deadline, next.Finished = api.Failed, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation)
}

// requestPatch returns the patch that makes a claim request its new size and VolumeAttributesClass.
func requestPatch(claim *corev1.PersistentVolumeClaim, e *api.Expansion) *plan.Patch {
	patch := operation.RequestSize(claim, e.To)
	if e.Attributes != nil {
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), *e.Attributes, "attributes "+*e.Attributes)
	}
	return patch
}

// hasGrown reports whether the claim has its new size. A file system that no pod has mounted counts as grown, because it grows with the
// next mount.
func hasGrown(in Input, claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	if !operation.RequestSize(claim, e.To).Empty() {
		return false
	}
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	return capacity.Cmp(e.To) >= 0 || statefulset.FileSystemPending(claim, e.To) != nil && len(in.Users(claim.Name)) == 0
}

// failureReason returns why the expansion fails, as a reason and a message. Both are empty if it can continue.
func failureReason(in Input, record *api.Resize) (api.Reason, string) {
	if operation.Aborted(in.Set) {
		return api.Aborted, operation.AbortWords(in.Set) + "volumes that have changed keep their new size and class" +
			operation.GrowthContinues(record, in.Claim)
	}
	if in.Rejected != "" {
		return api.Rejected, fmt.Sprintf("the API server rejected a write: %s. Fix the cause, then %s", in.Rejected,
			operation.HowToRetry(in.Set.Namespace, record))
	}
	for i := range record.Expansions {
		e := &record.Expansions[i]
		claim := in.Claim(e.Claim)
		switch {
		case e.Done:
		case claim == nil || claim.UID != e.UID || claim.DeletionTimestamp != nil:
			return api.ClaimLost, fmt.Sprintf("claim %s was deleted or replaced before it had grown. Look at the claim, then %s", e.Claim,
				operation.HowToRetry(in.Set.Namespace, record))
		case requestPatch(claim, e).Empty() && statefulset.Infeasible(claim, e.To):
			return api.ExpandInfeasible, operation.CannotGrow(claim, e.To)
		case e.Attributes != nil && requestPatch(claim, e).Empty() && statefulset.AttributesInfeasible(claim, *e.Attributes):
			return api.AttributesInfeasible, fmt.Sprintf("the storage cannot give claim %s the VolumeAttributesClass %s: %s. Other claims may have "+
				"it. Request another class, or correct this class, then %s", e.Claim, *e.Attributes, modifyError(claim),
				operation.HowToRetry(in.Set.Namespace, record))
		}
	}
	return "", ""
}

// completeExpansion hands the operation to pause-owner if claims need another volume, or the set other templates. Otherwise it ends the
// operation.
func completeExpansion(in Input, next *api.Resize) plan.Plan {
	next.Reason, next.Message = api.ClaimsExpanded, operation.Summary(next, in.Settings.Retention)
	if next.ReplaceSet && statefulset.TwoRevisions(in.Set) && !operation.Overdue(next, in.Now) {
		return plan.Wait(api.RolloutRunning, "a partition keeps pods of an older revision")
	}
	if next.ReplaceSet || len(next.Members) > 0 {
		next.Message = "all claims that can grow in place have grown"
		return handToPauseOwner(in, next)
	}
	next.Phase, next.Reason, next.Deadline, next.Finished = api.Succeeded, api.ResizeCompleted, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.ApproveAnnotation).Unannotate(api.DeadLettersAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, false))...).Then(events.RestoreCompleted,
		next.Operation)
}

// hasAttributes reports whether the claim's volume has the VolumeAttributesClass that the expansion gives it.
func hasAttributes(claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	return e.Attributes == nil || statefulset.AttributesOf(claim) == *e.Attributes && !statefulset.Modifying(claim)
}

// withdrawAttributes adds to the patch that the claim requests the VolumeAttributesClass of its volume again. Kubernetes lets a claim
// drop its class only while the volume has none, and a driver that has started may finish first (kubernetes pkg/apis/core/validation,
// ValidatePersistentVolumeClaimUpdate). After a missed deadline the request stays, because the storage may only be slow.
func withdrawAttributes(reason api.Reason, patch *plan.Patch, claim *corev1.PersistentVolumeClaim, e *api.Expansion) {
	if e.Attributes == nil || statefulset.AttributesOf(claim) != *e.Attributes || !statefulset.Modifying(claim) {
		return // another process has requested another class, or the volume has the class
	}
	if reason != api.Aborted && !(reason == api.AttributesInfeasible && statefulset.AttributesInfeasible(claim, *e.Attributes)) {
		return
	}
	current := statefulset.CurrentAttributes(claim)
	switch {
	case current == *e.Attributes:
	case current == "":
		patch.RemoveField([]string{"spec", "volumeAttributesClassName"})
	default:
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), current, "attributes "+current)
	}
}

// modifyError returns the storage's error from the claim's conditions, or a command that shows more.
func modifyError(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimVolumeModifyVolumeError && c.Message != "" {
			return c.Message
		}
	}
	return "see kubectl describe pvc -n " + claim.Namespace + " " + claim.Name
}
