package scalehooks

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
)

// Names of the hooks in the Scaler's spec.
const (
	preHook     = "pre"
	postHook    = "post"
	failureHook = "onFailure"
)

// hookOf maps a phase to the hook that runs in it.
var hookOf = map[api.Phase]string{api.PreScaling: preHook, api.PostScaling: postHook, api.Failing: failureHook}

// advance takes the next step of the active scaling.
func (w work) advance() plan.Plan {
	// in the phase Failing, the retry waits for the end of the scaling
	if scale.Retried(w.scaler) && w.record.Phase != api.Failing && !w.RetryNotRemovable {
		return w.removeRetry()
	}
	if w.Rejection != "" && !w.RetryNotRemovable {
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
		if expected == 0 && w.record.Paused && w.pauseDeletesClaims() { // a revert would delete claims, and the wait would never end
			return w.failScaling(api.PauseDeletesClaims, w.pauseDeletesClaimsMessage())
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
	return scale.EndCondition(job, batchv1.JobComplete) != nil || scale.EndCondition(job, batchv1.JobFailed) != nil
}

const rejectionPrefix = "the API server rejected a write: "

// handleRejection fails the scaling after the API server has permanently rejected a write. A forbidden write (403) may be allowed later,
// for example by a quota: such a scaling waits until its deadline.
func (w work) handleRejection() plan.Plan {
	if w.Forbidden && !operation.Overdue(w.record, w.Now) {
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + w.Rejection})
	}
	return w.failScaling(api.Rejected, rejectionPrefix+w.Rejection)
}

// expectedCount returns the value that spec.replicas of the set must have in the current phase.
func (w work) expectedCount() int32 {
	if w.record.Phase == api.PreScaling {
		return w.record.Previous
	}
	return w.record.Target
}

// enterPhase returns the record in the phase, with that phase's deadline.
func (w work) enterPhase(record *api.Scale, phase api.Phase) *api.Scale {
	next := operation.Enter(record, phase, w.Now, w.deadline(phase))
	next.HookRequests = nil
	post := w.hook(postHook)
	next.CleansUp = phase == api.PostScaling && post != nil && post.Cleanup != nil && !next.Paused // a pause keeps the claims
	return next
}

// changeCount sets the new count in the same write that stores it in the record.
func (w work) changeCount() plan.Plan {
	next := w.enterPhase(w.record, api.Scaling)
	next.Reason, next.Message = api.CountChanged, fmt.Sprintf("spec.replicas of the StatefulSet was set to %d", next.Target)
	if next.Paused && next.Target == 0 && w.pauseDeletesClaims() {
		return w.failScaling(api.PauseDeletesClaims, w.pauseDeletesClaimsMessage())
	}
	next.Paused = next.Paused && next.Target == 0 // a pause ends when its members start again
	patch := plan.Set(operation.Store(w.Set, next), replicasPath, statefulset.Replicas(w.Set), next.Target,
		fmt.Sprintf("replicas = %d", next.Target))
	w.record = next
	return plan.Do(api.CountChanged, append(patch.Actions(), w.statuses(nil)...)...)
}

// pauseDeletesClaims reports whether a pause of the set would delete the claims of its members. A pause must keep the data.
func (w work) pauseDeletesClaims() bool { return statefulset.WhenScaled(w.Set) != statefulset.Retain }

func (w work) pauseDeletesClaimsMessage() string {
	return fmt.Sprintf("persistentVolumeClaimRetentionPolicy.whenScaled of StatefulSet %s is %s, so a pause would delete the claims. "+
		"Set it to %s", w.Name, statefulset.WhenScaled(w.Set), statefulset.Retain)
}

// awaitMembers waits until the StatefulSet controller has observed the new count, and that many members exist and are ready.
func (w work) awaitMembers() plan.Plan {
	status, target := w.Set.Status, w.record.Target
	switch {
	case statefulset.SpecObserved(w.Set) && status.Replicas == target && status.ReadyReplicas == target:
		next := w.enterPhase(w.record, api.PostScaling)
		next.Reason, next.Message = api.MembersReady, fmt.Sprintf("%d members are ready", target)
		return w.storeRecord(api.MembersReady, next)
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

// failScaling ends the scaling in its current phase. If the Scaler has a hook onFailure, the hook runs before the scaling ends.
func (w work) failScaling(reason api.Reason, message string) plan.Plan {
	if w.record.Phase == api.Failing {
		return w.finishFailed()
	}
	message = fmt.Sprintf("%s. Fix the cause, then retry: kubectl annotate -n %s scaler %s %s=", truncate(message, maxQuote),
		w.Namespace, w.scaler.Name, api.RetryAnnotation)
	if w.scaler.Spec.Hooks.OnFailure == nil {
		return w.endScaling(operation.Fail(w.record, api.Failed, w.Now, reason, message))
	}
	next := w.enterPhase(w.record, api.Failing)
	next.FailedAt, next.Reason, next.Message = w.record.Phase, reason, message
	return w.storeRecord(reason, next)
}

func (w work) finishFailed() plan.Plan {
	next := operation.Conclude(w.record, api.Failed, w.Now, w.record.Reason, w.record.Message)
	return w.endScaling(next)
}

// runHook runs the hook of the current phase, and calls next when the hook has succeeded. The outcome of the hook onFailure does not
// matter.
func (w work) runHook(next func() plan.Plan) plan.Plan {
	hook := hookOf[w.record.Phase]
	job := w.hookJob(hook)
	switch spec := w.hook(hook); {
	case spec == nil || job != nil: // an existing Job counts, even if the hook's kind has changed since
	case spec.Event != nil:
		return w.runHookByEvent(hook, next)
	case spec.Cleanup != nil:
		return w.awaitCleanup(next)
	}
	failing, late := hook == failureHook, operation.Overdue(w.record, w.Now)
	template, err := w.hookTemplate(hook)
	switch {
	case template == nil && err == nil && job == nil:
		return next()
	case job != nil && job.DeletionTimestamp != nil && !failing && !late: // another Job follows when this one is deleted
		return w.wait(api.HookRunning, "Job %s is being deleted", job.Name)
	case job != nil && scale.EndCondition(job, batchv1.JobComplete) != nil:
		return next()
	case failing && (err != nil || w.Rejection != "" || late || job != nil && scale.EndCondition(job, batchv1.JobFailed) != nil):
		return next()
	case err != nil:
		return w.failScaling(api.HookInvalid, err.Error())
	case job != nil && scale.EndCondition(job, batchv1.JobFailed) != nil:
		c := scale.EndCondition(job, batchv1.JobFailed)
		return w.failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: Job %s: %s %s%s", hook, job.Name, c.Reason, c.Message,
			w.containerFailure()))
	case late:
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s did not end within %s", hook, w.deadline(w.record.Phase)))
	case job == nil:
		return plan.Do(api.HookRunning, plan.Create(plan.Jobs, w.makeJob(hook, template)))
	}
	return w.wait(api.HookRunning, "Job %s is running", job.Name)
}

// wait updates the Scalers' status, or returns a plan that waits if the status is up to date.
func (w work) wait(reason api.Reason, detail string, args ...any) plan.Plan {
	if actions := w.statuses(nil); len(actions) > 0 {
		return plan.Do(api.StatusUpdated, actions...)
	}
	return plan.Wait(reason, detail, args...)
}

// hook returns the Scaler's hook with that name, or nil.
func (w work) hook(hook string) *v1alpha1.Hook {
	hooks := w.scaler.Spec.Hooks
	return map[string]*v1alpha1.Hook{preHook: hooks.Pre, postHook: hooks.Post, failureHook: hooks.OnFailure}[hook]
}

// hookTemplate returns the pod template of the hook. It is nil if the Scaler has no such hook, or the hook needs no pod.
func (w work) hookTemplate(hook string) (*corev1.PodTemplateSpec, error) {
	spec := w.hook(hook)
	switch {
	case spec == nil:
	case spec.Job != nil:
		where := fmt.Sprintf("hooks.%s.job.template of Scaler %s", hook, w.scaler.Name)
		return resources.ParseScaleHook(w.Set, where, string(spec.Job.Template.Raw))
	case spec.HTTP != nil:
		where := fmt.Sprintf("hooks.%s.http of Scaler %s", hook, w.scaler.Name)
		return resources.CallTemplate(w.Settings, where, *spec.HTTP)
	}
	return nil, nil
}

// makeJob builds the Job of the hook.
func (w work) makeJob(hook string, template *corev1.PodTemplateSpec) *batchv1.Job {
	job := resources.MakeScaleHook(w.Set, w.record, hook, template, w.timeLeft())
	if spec := w.hook(hook); spec != nil && spec.Job != nil {
		job.Spec.BackoffLimit = ptr.To(spec.Job.BackoffLimit)
	}
	return job
}

// validateHooks checks all hooks, because a scaling with an invalid hook could not end.
func (w work) validateHooks() error {
	if post := w.hook(postHook); post != nil && post.Cleanup != nil && !statefulset.CleanupAsked(w.Set) {
		return fmt.Errorf("hooks.post.cleanup of Scaler %s needs a pod template for the cleanup, and StatefulSet %s has none. "+
			"Add the annotation %s to the StatefulSet, or remove the hook", w.scaler.Name, w.Name, api.CleanupTemplateAnnotation)
	}
	for _, hook := range []string{preHook, postHook, failureHook} {
		if spec := w.hook(hook); spec != nil && spec.Event != nil && w.Settings.OwnFunctionsOnly {
			return fmt.Errorf("hooks.%s.event of Scaler %s needs Drydock on Knative, because drydock-standalone sends no events to "+
				"functions of users. "+
				"Use job or http", hook, w.scaler.Name)
		}
		if _, err := w.hookTemplate(hook); err != nil {
			return err
		}
	}
	return nil
}

// hookJob returns the hook's Job of this operation, or nil if it was not created.
func (w work) hookJob(hook string) *batchv1.Job {
	name := api.ScaleHookName(w.record.Operation, hook)
	for _, job := range w.Jobs {
		if job.Name == name && api.HasLink(job, w.record.Operation, api.RoleScaleHook) {
			return job
		}
	}
	return nil
}

// deleteFinishedHooks deletes the hook Jobs that no step needs any more. A Job counts only in its own phase and operation.
func (in Input) deleteFinishedHooks(record *api.Scale) plan.Plan {
	var actions []plan.Action
	for _, job := range in.Jobs {
		needed := record.Active() && job.Name == api.ScaleHookName(record.Operation, hookOf[record.Phase])
		if !needed && job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return plan.Do(api.HookEnded, actions...)
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
