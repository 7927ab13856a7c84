package scale

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
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
	case job != nil && !w.record.HookMade && statefulset.JobEnd(job).Type == "" && !operation.Overdue(w.record, w.Now):
		next := w.record.Clone()
		next.HookMade = true
		return w.storeRecord(api.HookRunning, next)
	}
	return w.runHook(w.finishFailed)
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

// beginScaling stores the record of a new scaling before anything else changes. The target does not change until the scaling ends.
func (w work) beginScaling(target int32) plan.Plan {
	if err := w.validateHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	if removed := statefulset.Replicas(w.Set) - target; w.hasPreHook() && removed > resources.MaxOrdinals {
		return w.report(&problem{reason: api.HookInvalid, message: fmt.Sprintf("the pre hook can be given at most %d members to remove, "+
			"not %d. "+
			"Scale down in smaller steps", resources.MaxOrdinals, removed)})
	}
	next := w.enterPhase(w.newRecord(api.PreScaling, statefulset.Replicas(w.Set), target), api.PreScaling)
	next.Reason, next.Message = api.ScalingStarted, fmt.Sprintf("scaling from %d to %d", next.Previous, next.Target)
	return w.storeRecord(api.ScalingStarted, next, w.eventFor(next, false))
}

// recordLiveCount stores that another client has already scaled the set to the requested count, so that no scaling is needed.
func (w work) recordLiveCount(live int32) plan.Plan {
	next := w.newRecord(api.Succeeded, live, live)
	next.Reason, next.Message = api.CountAdopted, fmt.Sprintf("the StatefulSet already has the requested %d members", live)
	next.Finished = operation.Moment(w.Now)
	return w.storeRecord(api.CountAdopted, next)
}

// enterPhase returns the record in the phase, with that phase's deadline.
func (w work) enterPhase(record *api.Scale, phase api.Phase) *api.Scale {
	next := operation.Enter(record, phase, w.Now, w.deadline(phase))
	next.HookRequests = nil
	post := w.hook(postHook)
	next.CleansUp = phase == api.PostScaling && post != nil && post.Cleanup != nil && !next.Paused // a pause keeps the claims
	return next
}

// deadline returns the duration that the phase may take.
func (w work) deadline(phase api.Phase) time.Duration {
	d := w.scaler.Spec.Deadlines
	switch phase {
	case api.PreScaling:
		return d.Pre.Or(v1alpha1.DefaultHookDeadline)
	case api.Scaling:
		return d.Scaling.Or(v1alpha1.DefaultScalingDeadline)
	case api.PostScaling:
		return d.Post.Or(v1alpha1.DefaultHookDeadline)
	}
	return d.OnFailure.Or(v1alpha1.DefaultHookDeadline)
}

// timeLeft returns the time until the deadline of the current phase. It is negative after the deadline.
func (w work) timeLeft() time.Duration {
	if w.record.Deadline == nil {
		return w.deadline(w.record.Phase)
	}
	return w.record.Deadline.Sub(w.Now)
}

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members, and then calls next.
func (w work) awaitCleanup(next func() plan.Plan) plan.Plan {
	cleanup, ledger := operation.Of(w.Set).Cleanup, api.LoadLedger(w.Set)
	switch {
	case w.record.Paused: // the members of a paused set start again, so the ledger orders no removal
		return next()
	case !cleanup.Active() && (ledger == nil || ledger.Removing == nil):
		return next()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(w.record.Started.Time):
		return w.failScaling(api.HookFailed, "the cleanup of the removed members' claims has failed: "+cleanup.Message)
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("the claims of the removed pods were not cleaned up within %s. Read the "+
			"annotation %s of the StatefulSet for the reason", w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "the claims of the removed pods are being cleaned up")
}
