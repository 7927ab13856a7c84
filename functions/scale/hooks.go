package scale

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Names of the hooks in the Scaler's spec.
const (
	preHook     = "pre"
	postHook    = "post"
	failureHook = "onFailure"
)

// hookOf maps a phase to the hook that runs in it.
var hookOf = map[api.Phase]string{api.PreScaling: preHook, api.PostScaling: postHook, api.Failing: failureHook}

// hook returns the Scaler's hook with that name, or nil.
func (w work) hook(hook string) *v1alpha1.Hook {
	hooks := w.scaler.Spec.Hooks
	return map[string]*v1alpha1.Hook{preHook: hooks.Pre, postHook: hooks.Post, failureHook: hooks.OnFailure}[hook]
}

// hasPreHook reports whether a hook must run before members are removed.
func (w work) hasPreHook() bool { return w.scaler.Spec.Hooks.Pre != nil }

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

// missingHookJob returns the name of the Job that the current hook needs and that was not created; empty if there is none.
func (in Input) missingHookJob() string {
	if in.Set == nil {
		return ""
	}
	record, err := api.LoadScale(in.Set)
	if err != nil || !record.Active() {
		return ""
	}
	w, hook := work{Input: in, record: record, scaler: scaling.Owner(in.Scalers, record)}, hookOf[record.Phase]
	if w.scaler == nil || w.hookJob(hook) != nil {
		return ""
	}
	if spec := w.hook(hook); spec == nil || spec.Job == nil && spec.HTTP == nil {
		return ""
	}
	return api.ScaleHookName(record.Operation, hook)
}

// namesakeMessage says which Job has the name that the current hook needs.
func (w work) namesakeMessage(hook string) string {
	return fmt.Sprintf("hook %s cannot start: another client has created Job %s. Delete it: kubectl delete -n %s job %s", hook,
		w.Namesake.Name, w.Namespace, w.Namesake.Name)
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
	case statefulset.JobEnd(job).Type == batchv1.JobComplete && !failing:
		return w.judgeHook(hook, job, next)
	case statefulset.JobEnd(job).Type == batchv1.JobComplete:
		return next()
	case failing && (err != nil || w.Rejected != "" || w.Namesake != nil || late):
		return next()
	case failing && statefulset.JobEnd(job).Type == batchv1.JobFailed:
		return next()
	case err != nil:
		return w.failScaling(api.HookInvalid, err.Error())
	case statefulset.JobEnd(job).Type == batchv1.JobFailed:
		c := statefulset.JobEnd(job)
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

const (
	// firstRequestInterval is the wait for an answer before the request is sent again. The wait doubles with each request, up to
	// longestRequestInterval.
	firstRequestInterval   = time.Minute
	longestRequestInterval = 16 * time.Minute
	// maxRequestKeys is the number of latest requests whose answers are accepted.
	maxRequestKeys = 8
)

// runHookByEvent sends a CloudEvent to the user's function until it answers, and then calls next. The answer itself is not stored. If the
// write that follows it fails, or the answer is lost, the request is sent again.
func (w work) runHookByEvent(hook string, next func() plan.Plan) plan.Plan {
	failing, answer := hook == failureHook, w.Answer
	switch {
	case w.isAnswerTo(hook) && !answer.Failed:
		return next()
	case failing && (w.isAnswerTo(hook) || w.Rejected != "" || operation.Overdue(w.record, w.Now)):
		return next()
	case w.isAnswerTo(hook):
		return w.failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: its function answered: %s", hook,
			text.Line(answer.Message, maxQuote)))
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s was requested %d times and not answered within %s. Check the "+
			"Trigger for "+
			"events of type %s, and its function", hook, requestCount(w.record.HookRequests), w.deadline(w.record.Phase), events.ScaleHookRequested))
	case !w.isRequestRecent():
		return w.sendRequest(hook)
	}
	return w.wait(api.HookRunning, "%d requests were sent to its function, without an answer yet", w.record.HookRequests.Times)
}

// isAnswerTo reports whether the event answers one of the latest requests for the hook.
func (w work) isAnswerTo(hook string) bool {
	a := w.Answer
	return a != nil && a.Operation == w.record.Operation && a.Hook == hook && w.record.HookRequests != nil &&
		slices.Contains(w.record.HookRequests.Keys, hashOf(a.Key))
}

// sendRequest stores the request in the record, and sends it after that write has succeeded.
func (w work) sendRequest(hook string) plan.Plan {
	next := w.record.Clone()
	if next.HookRequests == nil {
		next.HookRequests = &api.HookRequests{}
	}
	next.HookRequests.Times++
	next.HookRequests.Last = *operation.Moment(w.Now)
	next.HookRequests.Keys = append(next.HookRequests.Keys, hashOf(w.Key))
	next.HookRequests.Keys = next.HookRequests.Keys[max(0, len(next.HookRequests.Keys)-maxRequestKeys):]
	// The plan has no other write: if that failed, the request would not be sent.
	request := events.HookRequest{HookFacts: resources.HookFacts(w.Set, next, hook), Key: w.Key}
	return plan.Do(api.HookRequested, operation.Store(w.Set, next).Actions()...).
		Then(events.ScaleHookRequested, next.Operation).With(hook+"/"+strconv.Itoa(next.HookRequests.Times), request)
}

// isRequestRecent reports whether the latest request still has time to be answered. Otherwise, it is sent again.
func (w work) isRequestRecent() bool {
	ask := w.record.HookRequests
	return ask != nil && operation.Within(w.Now, ask.Last.Time, operation.Backoff(firstRequestInterval, longestRequestInterval, ask.Times))
}

// requestCount returns how often the hook was requested; 0 if it was not.
func requestCount(ask *api.HookRequests) int {
	if ask == nil {
		return 0
	}
	return ask.Times
}

// hashOf returns the form of a request's key that the record stores: users who can read the set must not learn the key.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
