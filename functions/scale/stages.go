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

// progress takes the next step of the active scaling.
type progress struct{ work }

func (w work) progress() progress { return progress{w} }

// advance takes the next step of the active scaling.
func (g progress) advance() plan.Plan {
	// in the phase Failing, the retry waits for the end of the scaling
	if scaling.Retried(g.scaler) && g.record.Phase != api.Failing && !g.RetryNotRemovable {
		return g.removeRetry()
	}
	if g.Rejected != "" && !g.rejects(api.NothingFailed) {
		return g.handleRejection() // before Jobs are deleted: the rejected write may have been such a deletion
	}
	if p := g.deleteFinishedHooks(g.record); p.Kind == plan.KindDo {
		return p
	}
	if start := statefulset.Start(g.Set); start != g.record.Start && g.record.Phase == api.PreScaling {
		return g.failScaling(api.StartedByOthers, fmt.Sprintf("another client has changed spec.ordinals.start from %d to %d, so the "+
			"hook has run for different members", g.record.Start, start))
	}
	if live, expected := statefulset.Replicas(g.Set), g.expectedCount(); live != expected && g.record.Phase != api.Failing {
		if g.adoptsLiveCount() || live > expected && g.scaleHooks().hasPreHook() { // an added member may have data by now, so it must be drained
			return g.failScaling(api.StartedByOthers, fmt.Sprintf("another client has scaled the StatefulSet from %d to %d",
				expected, live))
		}
		return g.counts().revertCount(expected)
	}
	switch g.record.Phase {
	case api.PreScaling:
		return g.scaleHooks().runHook(g.changeCount)
	case api.Scaling:
		return g.awaitMembers()
	case api.PostScaling:
		return g.scaleHooks().runHook(g.finishSucceeded)
	}
	return g.runFailureHook()
}

// runFailureHook runs the hook onFailure once. The record notes that its Job was created, because another client may delete the Job.
func (g progress) runFailureHook() plan.Plan {
	job := g.scaleHooks().hookJob(failureHook)
	switch {
	case job == nil && g.record.HookMade:
		return g.finishFailed()
	case job != nil && !g.record.HookMade && statefulset.JobEnd(job).Type == "" && !operation.Overdue(g.record, g.Now):
		next := g.record.Clone()
		next.HookMade = true
		return g.storeRecord(api.HookRunning, next)
	}
	return g.scaleHooks().runHook(g.finishFailed)
}

const rejectionPrefix = "the API server rejected a write: "

// handleRejection fails the scaling after the API server has permanently rejected a write. A forbidden write (403) may be allowed later,
// for example by a quota: such a scaling waits until its deadline.
func (g progress) handleRejection() plan.Plan {
	if g.Forbidden && !operation.Overdue(g.record, g.Now) {
		return g.report(&problem{reason: api.Rejected, message: rejectionPrefix + g.Rejected})
	}
	return g.failScaling(api.Rejected, rejectionPrefix+g.Rejected)
}

// expectedCount returns the value that spec.replicas of the set must have in the current phase.
func (g progress) expectedCount() int32 {
	if g.record.Phase == api.PreScaling {
		return g.record.Previous
	}
	return g.record.Target
}

// changeCount sets the new count in the same write that stores it in the record.
func (g progress) changeCount() plan.Plan {
	next := g.enterPhase(g.record, api.Scaling)
	next.Reason, next.Message = api.CountChanged, fmt.Sprintf("spec.replicas of the StatefulSet was set to %d", next.Target)
	if next.Target > 0 { // a pause ends when its members start again
		next.Paused = false
	}
	patch, before := operation.Store(g.Set, next), []plan.Action(nil)
	if next.Paused {
		before = g.stops().beginStopFor(next, patch)
	} else {
		if g.stop.Pending() {
			patch.Annotate(api.StopAnnotation, members.Started(g.stop, g.Now).Encode())
		}
		g.stops().setCount(patch, next.Target)
	}
	g.record = next
	return plan.Do(api.CountChanged, slices.Concat(before, patch.Actions(), g.statuses(nil))...)
}

// awaitMembers waits until the StatefulSet controller has observed the new count, and that many members exist and are ready.
func (g progress) awaitMembers() plan.Plan {
	status, target := g.Set.Status, g.record.Target
	switch {
	case statefulset.SpecObserved(g.Set) && status.Replicas == target && status.ReadyReplicas == target:
		next := g.enterPhase(g.record, api.PostScaling)
		next.Reason, next.Message = api.MembersReady, fmt.Sprintf("%d members are ready", target)
		return g.storeRecord(api.MembersReady, next)
	case operation.Overdue(g.record, g.Now) && !statefulset.SpecObserved(g.Set):
		return g.failScaling(api.DeadlineExceeded, fmt.Sprintf("the StatefulSet controller has not observed the count %d for %s. Check that "+
			"kube-controller-manager works", target, g.deadline(api.Scaling)))
	case operation.Overdue(g.record, g.Now):
		return g.failScaling(api.DeadlineExceeded, fmt.Sprintf("%d of %d members are ready, and %d exist, after %s. Check the pods of "+
			"the StatefulSet", status.ReadyReplicas, target, status.Replicas, g.deadline(api.Scaling)))
	}
	return g.wait(api.WaitingForReady, "%d of %d members are ready, %d exist", status.ReadyReplicas, target, status.Replicas)
}

func (g progress) finishSucceeded() plan.Plan {
	return g.endScaling(operation.Conclude(g.record, api.Succeeded, g.Now, api.ScalingCompleted,
		fmt.Sprintf("scaled from %d to %d", g.record.Previous, g.record.Target)))
}

// removeRetry removes the retry annotation from the Scaler, because the retry has begun.
func (g progress) removeRetry() plan.Plan {
	return plan.Do(api.NothingFailed, plan.PatchOf(plan.Scalers, g.scaler).Unannotate(api.RetryAnnotation).Actions()...)
}

// removeNeedlessRetry removes a retry annotation that repeats nothing, and says in an Event where it belongs: no scaling waits for it, or
// another Scaler scales the set.
func (g progress) removeNeedlessRetry() plan.Plan {
	for _, s := range g.Scalers {
		if !scaling.Retried(s) || s.DeletionTimestamp != nil {
			continue
		}
		why := fmt.Sprintf("No scaling waits for a retry. To retry a resize, sleep or cleanup of StatefulSet %s, run: "+
			"kubectl drydock retry -n %s sts/%s", g.Name, g.Namespace, g.Name)
		if s.UID != g.scaler.UID {
			why = fmt.Sprintf("Scaler %s scales StatefulSet %s. To retry its scaling, run: kubectl annotate -n %s scaler %s %s=",
				g.scaler.Name, g.Name, g.Namespace, g.scaler.Name, api.RetryAnnotation)
		}
		return plan.Do(api.NothingFailed, append(plan.PatchOf(plan.Scalers, s).Unannotate(api.RetryAnnotation).Actions(),
			g.warn(api.NothingFailed, "annotation %s on Scaler %s was removed. %s", api.RetryAnnotation, s.Name, why))...)
	}
	return plan.Noop(api.NothingFailed)
}

// beginScaling stores the record of a new scaling before anything else changes. The target does not change until the scaling ends.
func (g progress) beginScaling(target int32) plan.Plan {
	if err := g.scaleHooks().validateHooks(); err != nil {
		return g.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	if removed := statefulset.Replicas(g.Set) - target; g.scaleHooks().hasPreHook() && removed > resources.MaxOrdinals {
		return g.report(&problem{reason: api.HookInvalid, message: fmt.Sprintf("the pre hook can be given at most %d members to remove, "+
			"not %d. "+
			"Scale down in smaller steps", resources.MaxOrdinals, removed)})
	}
	next := g.enterPhase(g.newRecord(api.PreScaling, statefulset.Replicas(g.Set), target), api.PreScaling)
	next.Reason, next.Message = api.ScalingStarted, fmt.Sprintf("scaling from %d to %d", next.Previous, next.Target)
	return g.storeRecord(api.ScalingStarted, next, g.eventFor(next, false))
}

// recordLiveCount stores that another client has already scaled the set to the requested count, so that no scaling is needed.
func (g progress) recordLiveCount(live int32) plan.Plan {
	next := g.newRecord(api.Succeeded, live, live)
	next.Reason, next.Message = api.CountAdopted, fmt.Sprintf("the StatefulSet already has the requested %d members", live)
	next.Finished = operation.Moment(g.Now)
	return g.storeRecord(api.CountAdopted, next)
}

// enterPhase returns the record in the phase, with that phase's deadline.
func (g progress) enterPhase(record *api.Scale, phase api.Phase) *api.Scale {
	next := operation.Enter(record, phase, g.Now, g.deadline(phase))
	next.HookRequests = nil
	post := g.scaleHooks().hook(postHook)
	next.CleansUp = phase == api.PostScaling && post != nil && post.Cleanup != nil && !next.Paused // a pause keeps the claims
	return next
}

// deadline returns the duration that the phase may take.
func (g progress) deadline(phase api.Phase) time.Duration {
	d := g.scaler.Spec.Deadlines
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
func (g progress) timeLeft() time.Duration {
	if g.record.Deadline == nil {
		return g.deadline(g.record.Phase)
	}
	return g.record.Deadline.Sub(g.Now)
}

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members, and then calls next.
func (g progress) awaitCleanup(next func() plan.Plan) plan.Plan {
	cleanup, ledger := operation.Of(g.Set).Cleanup, api.LoadLedger(g.Set)
	switch {
	case g.record.Paused: // the members of a paused set start again, so the ledger orders no removal
		return next()
	case !cleanup.Active() && (ledger == nil || ledger.Removing == nil):
		return next()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(g.record.Started.Time):
		return g.failScaling(api.HookFailed, "the cleanup of the removed members' claims has failed: "+cleanup.Message)
	case operation.Overdue(g.record, g.Now):
		return g.failScaling(api.DeadlineExceeded, fmt.Sprintf("the claims of the removed pods were not cleaned up within %s. Read the "+
			"annotation %s of the StatefulSet for the reason", g.deadline(g.record.Phase), api.CleanupAnnotation))
	}
	return g.wait(api.HookRunning, "the claims of the removed pods are being cleaned up")
}
