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

// expand writes the new size and VolumeAttributesClass into every claim, and waits until its volume, and the file system on it, have them. It
// changes nothing else of a claim.
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
	if waiting == nil {
		return expanded(in, next)
	}
	if store := operation.Store(in.Set, next); !store.Empty() {
		return plan.Do(api.ExpansionRunning, store.Actions()...)
	}
	byGrowth := api.AskedByGrowth(in.Set, record.Request)
	pod, shut := toRestart(in, record)
	switch {
	case pod != nil && byGrowth && !operation.Overdue(record, in.Now):
		return plan.Do(api.ExpansionRunning, warn(in, record.Operation, api.FileSystemWaits, fmt.Sprintf("the volume of pod %s has grown, and the file "+
			"system on it grows only when it is mounted. Growth by usage restarts no pod. Restart it yourself", pod.Name)))
	case pod != nil && !byGrowth && shut == "":
		message := fmt.Sprintf("pod %s is started again, because the file system on its volume grows only when it is mounted", pod.Name)
		return plan.Do(api.ReplicaRestarted, plan.Evict(pod),
			plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Reason: api.ReplicaRestarted, Message: message, UID: in.Set.UID,
				Operation: record.Operation}))
	case pod != nil && !byGrowth && !operation.Overdue(record, in.Now):
		if store := operation.Store(in.Set, recordGate(next, pod, shut)); !store.Empty() {
			return plan.Do(api.GateClosed, store.Actions()...)
		}
		return plan.Wait(api.GateClosed, "%s", record.Message)
	}
	if operation.Overdue(record, in.Now) {
		return giveUp(in, record, api.DeadlineExceeded, tooLate(in, record, waiting))
	}
	p := plan.Wait(api.ExpansionRunning, "claim %s is growing", waiting.Claim)
	if grown(in, in.Claim(waiting.Claim), waiting) {
		p = plan.Wait(api.ExpansionRunning, "claim %s is getting VolumeAttributesClass %s", waiting.Claim, *waiting.Attributes)
	}
	p.Soon = in.Now.Sub(record.Started.Time) < moments
	return p
}

// askAndLook returns the writes that claims lack, marks the expansions that are done, and returns one that is not done; nil if all are.
func askAndLook(in Input, next *api.Resize) (asks []plan.Action, waiting *api.Expansion) {
	for i := range next.Expansions {
		e := &next.Expansions[i]
		if e.Done {
			continue
		}
		claim := in.Claim(e.Claim)
		asks = append(asks, request(claim, e).Actions()...)
		if e.Done = grown(in, claim, e) && modified(claim, e); !e.Done {
			waiting = e
		}
	}
	return asks, waiting
}

// tooLate returns the message for an expansion that is not done in time.
func tooLate(in Input, record *api.Resize, e *api.Expansion) string {
	if grown(in, in.Claim(e.Claim), e) {
		return fmt.Sprintf("claim %s did not get VolumeAttributesClass %s within %s, and still asks for it. Its driver may be unable to "+
			"modify volumes. Look at kubectl describe pvc %s, then ask again with the annotation %s", e.Claim, *e.Attributes,
			in.Settings.ExpandTimeout, e.Claim, api.RetryAnnotation)
	}
	switch pod, shut := toRestart(in, record); {
	case pod != nil && shut == "": // no pod is restarted for growth by usage
		return fmt.Sprintf("the volume of pod %s has grown, and the file system on it grows only when it is mounted. The pod was not restarted "+
			"within %s. Restart it", pod.Name, in.Settings.ExpandTimeout)
	case pod != nil:
		return fmt.Sprintf("%s. That took more than %s. The file system grows as soon as the pod is started again; delete it yourself, or ask "+
			"again with the annotation %s", recordGate(record.Clone(), pod, shut).Message, in.Settings.ExpandTimeout, api.RetryAnnotation)
	}
	return fmt.Sprintf("claim %s did not grow within %s: %s. The claims still ask for it. Ask again with the annotation %s. If the storage "+
		"expands no volume in use, first write %s=%s, or %s to copy the volumes", e.Claim, in.Settings.ExpandTimeout,
		operation.WhyNotGrown(in.Claim(e.Claim)), api.RetryAnnotation, api.ResizeMethodAnnotation, api.MethodExpandOffline, api.MethodCopy)
}

// giveUp writes down why, before anything is taken back.
func giveUp(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := record.Clone()
	next.FailedAt, next.Reason, next.Message = api.Expanding, why, message
	return plan.Do(why, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
}

// request returns the patch by which a claim asks for its new size, at least, and for its new VolumeAttributesClass.
func request(claim *corev1.PersistentVolumeClaim, e *api.Expansion) *plan.Patch {
	patch := operation.AskFor(claim, e.To)
	if e.Attributes != nil {
		plan.Set(patch, statefulset.AttributesPath, statefulset.AttributesOf(claim), *e.Attributes, "attributes "+*e.Attributes)
	}
	return patch
}

// grown reports whether the claim has its new size. A file system that no pod has mounted grows when one does, and counts as grown.
func grown(in Input, claim *corev1.PersistentVolumeClaim, e *api.Expansion) bool {
	if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(e.To) >= 0 {
		return true
	}
	return request(claim, e).Empty() && statefulset.FileSystemPending(claim, e.To) != nil && len(in.Users(claim.Name)) == 0
}

// hopeless says why the expansion has to be given up, or nothing.
func hopeless(in Input, record *api.Resize) (api.Reason, string) {
	if _, abort := in.Set.Annotations[api.AbortAnnotation]; abort {
		return api.Aborted, "aborted; claims keep the sizes and classes that their volumes have"
	}
	if in.Rejected != "" {
		return api.Rejected, "the API server refused a step: " + in.Rejected + "; mend the cause, then ask again with the annotation " +
			api.RetryAnnotation
	}
	for i := range record.Expansions {
		e := &record.Expansions[i]
		claim := in.Claim(e.Claim)
		switch {
		case e.Done:
		case claim == nil || claim.UID != e.UID || claim.DeletionTimestamp != nil:
			return api.ClaimLost, fmt.Sprintf("claim %s was deleted or replaced while it was to grow; look at it, then ask again with the "+
				"annotation %s", e.Claim, api.RetryAnnotation)
		case request(claim, e).Empty() && statefulset.Infeasible(claim, e.To):
			return api.ExpandInfeasible, operation.CannotGrow(claim, e.To)
		case e.Attributes != nil && request(claim, e).Empty() && statefulset.AttributesInfeasible(claim, *e.Attributes):
			return api.AttributesInfeasible, fmt.Sprintf("the storage cannot give claim %s the VolumeAttributesClass %s: %s. Other claims may have "+
				"it. Ask for another class, or correct this one and ask again with %s", e.Claim, *e.Attributes, modifyError(claim),
				api.RetryAnnotation)
		}
	}
	return "", ""
}

// expanded hands the operation on if claims need another volume or the set other templates; else it ends the operation.
func expanded(in Input, next *api.Resize) plan.Plan {
	next.Reason, next.Message = api.ClaimsExpanded, operation.Summary(next, in.Settings.Retention)
	if next.ReplaceSet && statefulset.TwoRevisions(in.Set) && !operation.Overdue(next, in.Now) {
		return plan.Wait(api.RolloutRunning, "a partition keeps replicas of an older revision")
	}
	if next.ReplaceSet || len(next.Members) > 0 {
		next.Message = "every claim that can has grown on its volume"
		return hand(in, next)
	}
	next.Phase, next.Reason, next.Deadline, next.Finished = api.Succeeded, api.ResizeCompleted, nil, operation.Moment(in.Now)
	store := operation.Store(in.Set, next).Unannotate(api.ApproveAnnotation).Unannotate(api.DeadLettersAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, false))...).Then(events.RestoreCompleted,
		next.Operation)
}

// takeBack ends the operation. Claims whose volumes do not get what they ask for then ask for no more than they have, as far as Kubernetes allows,
// so that the storage stops trying. After a deadline the requests stay: the storage may be slow.
func takeBack(in Input, record *api.Resize) plan.Plan {
	var lowers []plan.Action
	for i := range record.Expansions {
		e := &record.Expansions[i]
		if claim := in.Claim(e.Claim); claim != nil && claim.UID == e.UID {
			lowers = append(lowers, withdrawRequest(record.Reason, claim, e).Actions()...)
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
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	return plan.Do(next.Reason, append(store.Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation)
}

// withdrawRequest returns the patch by which a claim asks for no more than its volume has.
func withdrawRequest(reason api.Reason, claim *corev1.PersistentVolumeClaim, e *api.Expansion) *plan.Patch {
	patch := plan.PatchOf(plan.Claims, claim)
	if reason == api.Aborted || reason == api.ExpandInfeasible && statefulset.Infeasible(claim, e.To) {
		patch = operation.AskNoMore(claim, e.From, e.To)
	}
	withdrawClass(reason, patch, claim, e)
	return patch
}
