package scale

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/scaling"
)

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
	case job != nil && scaling.EndCondition(job, batchv1.JobComplete) != nil && !failing:
		return w.judgeHook(hook, job, next)
	case job != nil && scaling.EndCondition(job, batchv1.JobComplete) != nil:
		return next()
	case failing && (err != nil || w.Rejected != "" || w.Namesake != nil || late):
		return next()
	case failing && job != nil && scaling.EndCondition(job, batchv1.JobFailed) != nil:
		return next()
	case err != nil:
		return w.failScaling(api.HookInvalid, err.Error())
	case job != nil && scaling.EndCondition(job, batchv1.JobFailed) != nil:
		c := scaling.EndCondition(job, batchv1.JobFailed)
		return w.failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: Job %s: %s %s%s", hook, job.Name, c.Reason, c.Message,
			w.containerFailure()))
	case w.Namesake != nil && late: // the retry has another name
		return w.failScaling(api.NameTaken, w.namesakeMessage(hook))
	case w.Namesake != nil:
		return w.report(&problem{reason: api.NameTaken, message: w.namesakeMessage(hook)})
	case late:
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s did not end within %s", hook, w.deadline(w.record.Phase)))
	case job == nil:
		return plan.Do(api.HookRunning, plan.Create(plan.Jobs, w.makeJob(hook, template)))
	}
	return w.wait(api.HookRunning, "Job %s is running", job.Name)
}

// judgeHook calls next if the complete Job has done the hook's work. If nothing proves that, the hook has failed.
func (w work) judgeHook(hook string, job *batchv1.Job, next func() plan.Plan) plan.Plan {
	switch verdict, why := podend.JudgeJob(w.Now, job, w.HookPods, w.Kills); verdict {
	case podend.Succeeded:
		return next()
	case podend.Pending:
		p := w.wait(api.HookRunning, "Job %s is complete, but %s", job.Name, why)
		p.Soon = p.Kind == plan.KindWait
		return p
	default:
		return w.failScaling(api.HookFailed, fmt.Sprintf("hook %s may not have finished its work: Job %s is complete, but %s", hook, job.Name,
			why))
	}
}

// makeJob builds the Job of the hook.
func (w work) makeJob(hook string, template *corev1.PodTemplateSpec) *batchv1.Job {
	job := resources.MakeScaleHook(w.Set, w.record, hook, template, w.timeLeft())
	if spec := w.hook(hook); spec != nil && spec.Job != nil {
		job.Spec.BackoffLimit = ptr.To(spec.Job.BackoffLimit)
	}
	return job
}
