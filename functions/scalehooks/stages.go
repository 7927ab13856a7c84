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

// Names of hooks, as in the Scaler's spec.
const (
	preHook     = "pre"
	postHook    = "post"
	failureHook = "onFailure"
)

// hookOf is the hook that runs in a phase.
var hookOf = map[api.Phase]string{api.PreScaling: preHook, api.PostScaling: postHook, api.Failing: failureHook}

// goOn takes the next step of the scaling.
func (w work) goOn() plan.Plan {
	if scale.Retried(w.scaler) && w.record.Phase != api.Failing && !w.RetryStays { // a scaling in its phase Failing is retried once it has failed
		return w.forgetRetry()
	}
	if w.Rejected != "" && !w.RetryStays {
		return w.rejected() // before the Jobs: the refused write may be the deletion of a Job
	}
	if p := w.tidy(w.record); p.Kind == plan.KindDo {
		return p
	}
	if start := statefulset.Start(w.Set); start != w.record.Start && w.record.Phase == api.PreScaling {
		return w.giveUp(api.StartedByOthers, fmt.Sprintf("another client has changed spec.ordinals.start from %d to %d, so the hook has run for other members",
			w.record.Start, start))
	}
	if live, is := statefulset.Replicas(w.Set), w.count(); live != is && w.record.Phase != api.Failing {
		if w.adopts() || live > is && w.drains() { // a member that was added may have data by now
			return w.giveUp(api.StartedByOthers, fmt.Sprintf("another client has scaled the StatefulSet from %d to %d", is, live))
		}
		if is == 0 && w.record.Paused && w.losesClaims() { // putting it back would delete claims, and waiting would have no end
			return w.giveUp(api.PauseDeletesClaims, w.keepClaims())
		}
		return w.putBack(is)
	}
	switch w.record.Phase {
	case api.PreScaling:
		return w.runHook(w.changeCount)
	case api.Scaling:
		return w.awaitMembers()
	case api.PostScaling:
		return w.runHook(w.complete)
	}
	return w.runFailureHook()
}

// runFailureHook runs the hook for a failure once: the record notes its Job, which another client may delete.
func (w work) runFailureHook() plan.Plan {
	job := w.job(failureHook)
	switch {
	case job == nil && w.record.HookMade:
		return w.fail()
	case job != nil && !w.record.HookMade && !hasEnded(job) && !operation.Overdue(w.record, w.Now):
		next := w.record.Clone()
		next.HookMade = true
		return w.store(api.HookRunning, next)
	}
	return w.runHook(w.fail)
}

func hasEnded(job *batchv1.Job) bool {
	return scale.Ended(job, batchv1.JobComplete) != nil || scale.Ended(job, batchv1.JobFailed) != nil
}

const refused = "the API server refuses a write: "

// rejected gives the scaling up whose write is refused for good. What is forbidden may be allowed soon, as when a quota has room again.
func (w work) rejected() plan.Plan {
	if w.Forbidden && !operation.Overdue(w.record, w.Now) {
		return w.report(&problem{reason: api.Rejected, message: refused + w.Rejected})
	}
	return w.giveUp(api.Rejected, refused+w.Rejected)
}

// count returns how many members the set is to ask for in the present phase.
func (w work) count() int32 {
	if w.record.Phase == api.PreScaling {
		return w.record.Previous
	}
	return w.record.Target
}

// enter gives the record the deadline of the phase.
func (w work) enter(record *api.Scale, phase api.Phase) *api.Scale {
	next := operation.Enter(record, phase, w.Now, w.deadline(phase))
	next.Ask = nil
	post := w.hook(postHook)
	next.CleansUp = phase == api.PostScaling && post != nil && post.Cleanup != nil && !next.Paused // a pause keeps the claims
	return next
}

// changeCount gives the set the new count, in the same write that says so.
func (w work) changeCount() plan.Plan {
	next := w.enter(w.record, api.Scaling)
	next.Reason, next.Message = api.CountChanged, fmt.Sprintf("the StatefulSet is to have %d members", next.Target)
	if next.Paused && next.Target == 0 && w.losesClaims() {
		return w.giveUp(api.PauseDeletesClaims, w.keepClaims())
	}
	next.Paused = next.Paused && next.Target == 0 // the members come back
	patch := plan.Set(operation.Store(w.Set, next), replicasPath, statefulset.Replicas(w.Set), next.Target, fmt.Sprintf("replicas = %d", next.Target))
	w.record = next
	return plan.Do(api.CountChanged, append(patch.Actions(), w.statuses(nil)...)...)
}

// losesClaims reports whether the claims of removed members are deleted with them. A pause takes members away, and not their data.
func (w work) losesClaims() bool { return statefulset.WhenScaled(w.Set) != statefulset.Retain }

func (w work) keepClaims() string {
	return fmt.Sprintf("persistentVolumeClaimRetentionPolicy.whenScaled of StatefulSet %s is %s, so a pause would delete the claims; set it to %s",
		w.Name, statefulset.WhenScaled(w.Set), statefulset.Retain)
}

// awaitMembers waits until the StatefulSet controller has seen the count, and as many members are there and ready.
func (w work) awaitMembers() plan.Plan {
	status, target := w.Set.Status, w.record.Target
	switch {
	case statefulset.Seen(w.Set) && status.Replicas == target && status.ReadyReplicas == target:
		next := w.enter(w.record, api.PostScaling)
		next.Reason, next.Message = api.MembersReady, fmt.Sprintf("%d members are ready", target)
		return w.store(api.MembersReady, next)
	case operation.Overdue(w.record, w.Now):
		return w.giveUp(api.DeadlineExceeded, fmt.Sprintf("%d of %d members are ready, and %d are there, after %s; look at the pods of the StatefulSet",
			status.ReadyReplicas, target, status.Replicas, w.deadline(api.Scaling)))
	}
	return w.wait(api.WaitingForReady, "%d of %d members are ready, %d are there", status.ReadyReplicas, target, status.Replicas)
}

func (w work) complete() plan.Plan {
	return w.end(operation.Conclude(w.record, api.Succeeded, w.Now, api.ScalingCompleted,
		fmt.Sprintf("scaled from %d to %d", w.record.Previous, w.record.Target)))
}

// giveUp ends the scaling where it is. If there is a hook for that, it runs first.
func (w work) giveUp(reason api.Reason, message string) plan.Plan {
	if w.record.Phase == api.Failing {
		return w.fail()
	}
	message = fmt.Sprintf("%s. Mend that, then: kubectl annotate -n %s scaler %s %s=", short(message, longestQuote), w.Namespace, w.scaler.Name, api.RetryAnnotation)
	if w.scaler.Spec.Hooks.OnFailure == nil {
		return w.end(operation.Fail(w.record, api.Failed, w.Now, reason, message))
	}
	next := w.enter(w.record, api.Failing)
	next.FailedAt, next.Reason, next.Message = w.record.Phase, reason, message
	return w.store(reason, next)
}

func (w work) fail() plan.Plan {
	next := operation.Conclude(w.record, api.Failed, w.Now, w.record.Reason, w.record.Message)
	return w.end(next)
}

// runHook runs the hook of the phase, and then does what comes after it. A hook for a failure changes nothing by failing.
func (w work) runHook(then func() plan.Plan) plan.Plan {
	hook := hookOf[w.record.Phase]
	job := w.job(hook)
	switch asked := w.hook(hook); {
	case asked == nil || job != nil: // a Job that runs already counts, whatever the hook has become since
	case asked.Event != nil:
		return w.runByEvent(hook, then)
	case asked.Cleanup != nil:
		return w.awaitCleanup(then)
	}
	failing, late := hook == failureHook, operation.Overdue(w.record, w.Now)
	template, err := w.template(hook)
	switch {
	case template == nil && err == nil && job == nil:
		return then()
	case job != nil && job.DeletionTimestamp != nil && !failing && !late: // it is being deleted, so another one has to run
		return w.wait(api.HookRunning, "Job %s is being deleted", job.Name)
	case job != nil && scale.Ended(job, batchv1.JobComplete) != nil:
		return then()
	case failing && (err != nil || w.Rejected != "" || late || job != nil && scale.Ended(job, batchv1.JobFailed) != nil):
		return then()
	case err != nil:
		return w.giveUp(api.HookInvalid, err.Error())
	case job != nil && scale.Ended(job, batchv1.JobFailed) != nil:
		c := scale.Ended(job, batchv1.JobFailed)
		return w.giveUp(api.HookFailed, fmt.Sprintf("hook %s did not succeed: Job %s: %s %s%s", hook, job.Name, c.Reason, c.Message, w.failure()))
	case late:
		return w.giveUp(api.DeadlineExceeded, fmt.Sprintf("hook %s has not ended within %s", hook, w.deadline(w.record.Phase)))
	case job == nil:
		return plan.Do(api.HookRunning, plan.Create(plan.Jobs, w.makeJob(hook, template)))
	}
	return w.wait(api.HookRunning, "Job %s runs", job.Name)
}

// wait brings the status up to date while something else has to happen first.
func (w work) wait(reason api.Reason, detail string, args ...any) plan.Plan {
	if actions := w.statuses(nil); len(actions) > 0 {
		return plan.Do(api.StatusUpdated, actions...)
	}
	return plan.Wait(reason, detail, args...)
}

// hook returns the Scaler's hook of that name; nil if it has none.
func (w work) hook(hook string) *v1alpha1.Hook {
	hooks := w.scaler.Spec.Hooks
	return map[string]*v1alpha1.Hook{preHook: hooks.Pre, postHook: hooks.Post, failureHook: hooks.OnFailure}[hook]
}

// template returns the pod template of the hook; nil if the Scaler has no such hook.
func (w work) template(hook string) (*corev1.PodTemplateSpec, error) {
	asked := w.hook(hook)
	switch {
	case asked == nil:
	case asked.Job != nil:
		where := fmt.Sprintf("hooks.%s.job.template of Scaler %s", hook, w.scaler.Name)
		return resources.ParseScaleHook(w.Set, where, string(asked.Job.Template.Raw))
	case asked.HTTP != nil:
		where := fmt.Sprintf("hooks.%s.http of Scaler %s", hook, w.scaler.Name)
		return resources.CallTemplate(w.Settings, where, *asked.HTTP)
	}
	return nil, nil
}

// makeJob builds the Job of the hook.
func (w work) makeJob(hook string, template *corev1.PodTemplateSpec) *batchv1.Job {
	job := resources.MakeScaleHook(w.Set, w.record, hook, template, w.left())
	if asked := w.hook(hook); asked != nil && asked.Job != nil {
		job.Spec.BackoffLimit = ptr.To(asked.Job.BackoffLimit)
	}
	return job
}

// checkHooks looks at all hooks, so that no scaling begins that could not end.
func (w work) checkHooks() error {
	if post := w.hook(postHook); post != nil && post.Cleanup != nil && !statefulset.CleanupAsked(w.Set) {
		return fmt.Errorf("hooks.post.cleanup of Scaler %s: StatefulSet %s has no pod template for a cleanup; give it the annotation %s, or remove the hook",
			w.scaler.Name, w.Name, api.CleanupTemplateAnnotation)
	}
	for _, hook := range []string{preHook, postHook, failureHook} {
		if asked := w.hook(hook); asked != nil && asked.Event != nil && w.Settings.OwnFunctionsOnly {
			return fmt.Errorf("hooks.%s.event of Scaler %s needs Drydock on Knative: drydock-standalone has no Trigger for a function of yours; use job or http",
				hook, w.scaler.Name)
		}
		if _, err := w.template(hook); err != nil {
			return err
		}
	}
	return nil
}

// job returns the Job of the hook in this operation; nil if it has not been made.
func (w work) job(hook string) *batchv1.Job {
	name := api.ScaleHookName(w.record.Operation, hook)
	for _, job := range w.Jobs {
		if job.Name == name && api.Linked(job, w.record.Operation, api.RoleScaleHook) {
			return job
		}
	}
	return nil
}

// tidy deletes the Jobs of hooks that no step needs any more: a Job counts for its own phase only.
func (in Input) tidy(record *api.Scale) plan.Plan {
	var actions []plan.Action
	for _, job := range in.Jobs {
		needed := record.Active() && job.Name == api.ScaleHookName(record.Operation, hookOf[record.Phase])
		if !needed && job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return plan.Do(api.HookEnded, actions...)
}

// deadline returns how long the phase may take.
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

// left returns how much time the present phase has.
func (w work) left() time.Duration {
	if w.record.Deadline == nil {
		return w.deadline(w.record.Phase)
	}
	return w.record.Deadline.Sub(w.Now)
}
