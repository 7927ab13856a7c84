package scale

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

// advance takes the next step of the active scaling.
func (w work) advance() plan.Plan {
	// in the phase Failing, the retry waits for the end of the scaling
	if scaling.Retried(w.scaler) && w.record.Phase != api.Failing && !w.RetryNotRemovable {
		return w.removeRetry()
	}
	if w.Rejected != "" && !w.rejects(api.NothingFailed) {
		return w.handleRejection() // before Jobs are deleted: the rejected write may have been such a deletion
	}
	if p := w.deleteFinishedHooks(w.record); p.Kind == plan.KindDo {
		return p
	}
	if start := statefulset.Start(w.Set); start != w.record.Start && w.record.Phase == api.PreScaling {
		return w.failScaling(api.StartedByOthers, fmt.Sprintf("another client has changed spec.ordinals.start from %d to %d, so the "+
			"hook has run for different members", w.record.Start, start))
	}
	if live, expected := statefulset.Replicas(w.Set), w.expectedCount(); live != expected && w.record.Phase != api.Failing {
		if w.adoptsLiveCount() || live > expected && w.hasPreHook() { // an added member may have data by now, so it must be drained
			return w.failScaling(api.StartedByOthers, fmt.Sprintf("another client has scaled the StatefulSet from %d to %d",
				expected, live))
		}
		return w.revertCount(expected)
	}
	switch w.record.Phase {
	case api.PreScaling:
		return w.runHook(w.changeCount)
	case api.Scaling:
		return w.awaitMembers()
	case api.PostScaling:
		return w.runHook(w.finishSucceeded)
	}
	return w.runFailureHook()
}

// runFailureHook runs the hook onFailure once. The record notes that its Job was created, because another client may delete the Job.
func (w work) runFailureHook() plan.Plan {
	job := w.hookJob(failureHook)
	switch {
	case job == nil && w.record.HookMade:
		return w.finishFailed()
	case job != nil && !w.record.HookMade && !hasEnded(job) && !operation.Overdue(w.record, w.Now):
		next := w.record.Clone()
		next.HookMade = true
		return w.storeRecord(api.HookRunning, next)
	}
	return w.runHook(w.finishFailed)
}

func hasEnded(job *batchv1.Job) bool {
	return scaling.EndCondition(job, batchv1.JobComplete) != nil || scaling.EndCondition(job, batchv1.JobFailed) != nil
}

const rejectionPrefix = "the API server rejected a write: "

// handleRejection fails the scaling after the API server has permanently rejected a write. A forbidden write (403) may be allowed later,
// for example by a quota: such a scaling waits until its deadline.
func (w work) handleRejection() plan.Plan {
	if w.Forbidden && !operation.Overdue(w.record, w.Now) {
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + w.Rejected})
	}
	return w.failScaling(api.Rejected, rejectionPrefix+w.Rejected)
}

// expectedCount returns the value that spec.replicas of the set must have in the current phase.
func (w work) expectedCount() int32 {
	if w.record.Phase == api.PreScaling {
		return w.record.Previous
	}
	return w.record.Target
}

// changeCount sets the new count in the same write that stores it in the record.
func (w work) changeCount() plan.Plan {
	next := w.enterPhase(w.record, api.Scaling)
	next.Reason, next.Message = api.CountChanged, fmt.Sprintf("spec.replicas of the StatefulSet was set to %d", next.Target)
	if next.Target > 0 { // a pause ends when its members start again
		next.Paused = false
	}
	patch, before := operation.Store(w.Set, next), []plan.Action(nil)
	if next.Paused {
		before = w.beginStopFor(next, patch)
	} else {
		if w.stop.Pending() {
			patch.Annotate(api.StopAnnotation, members.Started(w.stop, w.Now).Encode())
		}
		w.setCount(patch, next.Target)
	}
	w.record = next
	return plan.Do(api.CountChanged, slices.Concat(before, patch.Actions(), w.statuses(nil))...)
}

// awaitMembers waits until the StatefulSet controller has observed the new count, and that many members exist and are ready.
func (w work) awaitMembers() plan.Plan {
	status, target := w.Set.Status, w.record.Target
	switch {
	case statefulset.SpecObserved(w.Set) && status.Replicas == target && status.ReadyReplicas == target:
		next := w.enterPhase(w.record, api.PostScaling)
		next.Reason, next.Message = api.MembersReady, fmt.Sprintf("%d members are ready", target)
		return w.storeRecord(api.MembersReady, next)
	case operation.Overdue(w.record, w.Now) && !statefulset.SpecObserved(w.Set):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("the StatefulSet controller has not observed the count %d for %s. Check that "+
			"kube-controller-manager works", target, w.deadline(api.Scaling)))
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("%d of %d members are ready, and %d exist, after %s. Check the pods of "+
			"the StatefulSet", status.ReadyReplicas, target, status.Replicas, w.deadline(api.Scaling)))
	}
	return w.wait(api.WaitingForReady, "%d of %d members are ready, %d exist", status.ReadyReplicas, target, status.Replicas)
}

func (w work) finishSucceeded() plan.Plan {
	return w.endScaling(operation.Conclude(w.record, api.Succeeded, w.Now, api.ScalingCompleted,
		fmt.Sprintf("scaled from %d to %d", w.record.Previous, w.record.Target)))
}

// removeRetry removes the retry annotation from the Scaler, because the retry has begun.
func (w work) removeRetry() plan.Plan {
	return plan.Do(api.NothingFailed, plan.PatchOf(plan.Scalers, w.scaler).Unannotate(api.RetryAnnotation).Actions()...)
}

// removeNeedlessRetry removes a retry annotation that repeats nothing, and says in an Event where it belongs: no scaling waits for it, or
// another Scaler scales the set.
func (w work) removeNeedlessRetry() plan.Plan {
	for _, s := range w.Scalers {
		if !scaling.Retried(s) || s.DeletionTimestamp != nil {
			continue
		}
		why := fmt.Sprintf("No scaling waits for a retry. To retry a resize, sleep or cleanup of StatefulSet %s, run: "+
			"kubectl drydock retry -n %s sts/%s", w.Name, w.Namespace, w.Name)
		if s.UID != w.scaler.UID {
			why = fmt.Sprintf("Scaler %s scales StatefulSet %s. To retry its scaling, run: kubectl annotate -n %s scaler %s %s=",
				w.scaler.Name, w.Name, w.Namespace, w.scaler.Name, api.RetryAnnotation)
		}
		return plan.Do(api.NothingFailed, append(plan.PatchOf(plan.Scalers, s).Unannotate(api.RetryAnnotation).Actions(),
			w.warn(api.NothingFailed, "annotation %s on Scaler %s was removed. %s", api.RetryAnnotation, s.Name, why))...)
	}
	return plan.Noop(api.NothingFailed)
}
