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

// scaleHooks runs the user's hooks before and after a scaling.
type scaleHooks struct{ work }

func (w work) scaleHooks() scaleHooks { return scaleHooks{w} }

// Names of the hooks in the Scaler's spec.
const (
	preHook     = "pre"
	postHook    = "post"
	failureHook = "onFailure"
)

// hookOf maps a phase to the hook that runs in it.
var hookOf = map[api.Phase]string{api.PreScaling: preHook, api.PostScaling: postHook, api.Failing: failureHook}

// hook returns the Scaler's hook with that name, or nil.
func (h scaleHooks) hook(hook string) *v1alpha1.Hook {
	hooks := h.scaler.Spec.Hooks
	return map[string]*v1alpha1.Hook{preHook: hooks.Pre, postHook: hooks.Post, failureHook: hooks.OnFailure}[hook]
}

// hasPreHook reports whether a hook must run before members are removed.
func (h scaleHooks) hasPreHook() bool { return h.scaler.Spec.Hooks.Pre != nil }

// hookTemplate returns the pod template of the hook. It is nil if the Scaler has no such hook, or the hook needs no pod.
func (h scaleHooks) hookTemplate(hook string) (*corev1.PodTemplateSpec, error) {
	spec := h.hook(hook)
	switch {
	case spec == nil:
	case spec.Job != nil:
		where := fmt.Sprintf("hooks.%s.job.template of Scaler %s", hook, h.scaler.Name)
		return resources.ParseScaleHook(h.Set, where, string(spec.Job.Template.Raw))
	case spec.HTTP != nil:
		where := fmt.Sprintf("hooks.%s.http of Scaler %s", hook, h.scaler.Name)
		return resources.CallTemplate(h.Settings, where, *spec.HTTP)
	}
	return nil, nil
}

// validateHooks checks all hooks, because a scaling with an invalid hook could not end.
func (h scaleHooks) validateHooks() error {
	if post := h.hook(postHook); post != nil && post.Cleanup != nil && !statefulset.CleanupAsked(h.Set) {
		return fmt.Errorf("hooks.post.cleanup of Scaler %s needs a pod template for the cleanup, and StatefulSet %s has none. "+
			"Add the annotation %s to the StatefulSet, or remove the hook", h.scaler.Name, h.Name, api.CleanupTemplateAnnotation)
	}
	for _, hook := range []string{preHook, postHook, failureHook} {
		if spec := h.hook(hook); spec != nil && spec.Event != nil && h.Settings.OwnFunctionsOnly {
			return fmt.Errorf("hooks.%s.event of Scaler %s needs Drydock on Knative, because drydock-standalone sends no events to "+
				"functions of users. "+
				"Use job or http", hook, h.scaler.Name)
		}
		if _, err := h.hookTemplate(hook); err != nil {
			return err
		}
	}
	return nil
}

// hookJob returns the hook's Job of this operation, or nil if it was not created.
func (h scaleHooks) hookJob(hook string) *batchv1.Job {
	name := api.ScaleHookName(h.record.Operation, hook)
	for _, job := range h.Jobs {
		if job.Name == name && api.HasLink(job, h.record.Operation, api.RoleScaleHook) {
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
	if w.scaler == nil || w.scaleHooks().hookJob(hook) != nil {
		return ""
	}
	if spec := w.scaleHooks().hook(hook); spec == nil || spec.Job == nil && spec.HTTP == nil {
		return ""
	}
	return api.ScaleHookName(record.Operation, hook)
}

// namesakeMessage says which Job has the name that the current hook needs.
func (h scaleHooks) namesakeMessage(hook string) string {
	return fmt.Sprintf("hook %s cannot start: another client has created Job %s. Delete it: kubectl delete -n %s job %s", hook,
		h.Namesake.Name, h.Namespace, h.Namesake.Name)
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
func (h scaleHooks) runHook(next func() plan.Plan) plan.Plan {
	hook := hookOf[h.record.Phase]
	job := h.hookJob(hook)
	switch spec := h.hook(hook); {
	case spec == nil || job != nil: // an existing Job counts, even if the hook's kind has changed since
	case spec.Event != nil:
		return h.runHookByEvent(hook, next)
	case spec.Cleanup != nil:
		return h.progress().awaitCleanup(next)
	}
	failing, late := hook == failureHook, operation.Overdue(h.record, h.Now)
	template, err := h.hookTemplate(hook)
	switch {
	case template == nil && err == nil && job == nil:
		return next()
	case job != nil && job.DeletionTimestamp != nil && !failing && !late: // another Job follows when this one is deleted
		return h.wait(api.HookRunning, "Job %s is being deleted", job.Name)
	case statefulset.JobEnd(job).Type == batchv1.JobComplete && !failing:
		return h.judgeHook(hook, job, next)
	case statefulset.JobEnd(job).Type == batchv1.JobComplete:
		return next()
	case failing && (err != nil || h.Rejected != "" || h.Namesake != nil || late):
		return next()
	case failing && statefulset.JobEnd(job).Type == batchv1.JobFailed:
		return next()
	case err != nil:
		return h.progress().failScaling(api.HookInvalid, err.Error())
	case statefulset.JobEnd(job).Type == batchv1.JobFailed:
		c := statefulset.JobEnd(job)
		return h.progress().failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: Job %s: %s %s%s", hook, job.Name, c.Reason, c.Message,
			h.containerFailure()))
	case h.Namesake != nil && late: // the retry has another name
		return h.progress().failScaling(api.NameTaken, h.namesakeMessage(hook))
	case h.Namesake != nil:
		return h.report(&problem{reason: api.NameTaken, message: h.namesakeMessage(hook)})
	case late:
		return h.progress().failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s did not end within %s", hook,
			h.progress().deadline(h.record.Phase)))
	case job == nil:
		return plan.Do(api.HookRunning, plan.Create(plan.Jobs, h.makeJob(hook, template)))
	}
	return h.wait(api.HookRunning, "Job %s is running", job.Name)
}

// judgeHook calls next if the complete Job has done the hook's work. If nothing proves that, the hook has failed.
func (h scaleHooks) judgeHook(hook string, job *batchv1.Job, next func() plan.Plan) plan.Plan {
	switch verdict, why := podend.JudgeJob(h.Now, job, h.HookPods, h.Kills); verdict {
	case podend.Succeeded:
		return next()
	case podend.Pending:
		p := h.wait(api.HookRunning, "Job %s is complete, but %s", job.Name, why)
		p.Soon = p.Kind == plan.KindWait
		return p
	default:
		return h.progress().failScaling(api.HookFailed, fmt.Sprintf("hook %s may not have finished its work: Job %s is complete, but %s",
			hook, job.Name,
			why))
	}
}

// makeJob builds the Job of the hook.
func (h scaleHooks) makeJob(hook string, template *corev1.PodTemplateSpec) *batchv1.Job {
	job := resources.MakeScaleHook(h.Set, h.record, hook, template, h.progress().timeLeft())
	if spec := h.hook(hook); spec != nil && spec.Job != nil {
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
func (h scaleHooks) runHookByEvent(hook string, next func() plan.Plan) plan.Plan {
	failing, answer := hook == failureHook, h.Answer
	switch {
	case h.isAnswerTo(hook) && !answer.Failed:
		return next()
	case failing && (h.isAnswerTo(hook) || h.Rejected != "" || operation.Overdue(h.record, h.Now)):
		return next()
	case h.isAnswerTo(hook):
		return h.progress().failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: its function answered: %s", hook,
			text.Line(answer.Message, maxQuote)))
	case operation.Overdue(h.record, h.Now):
		return h.progress().failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s was requested %d times and not answered within %s. Check the "+
			"Trigger for "+
			"events of type %s, and its function", hook, requestCount(h.record.HookRequests), h.progress().deadline(h.record.Phase),
			events.ScaleHookRequested))
	case !h.isRequestRecent():
		return h.sendRequest(hook)
	}
	return h.wait(api.HookRunning, "%d requests were sent to its function, without an answer yet", h.record.HookRequests.Times)
}

// isAnswerTo reports whether the event answers one of the latest requests for the hook.
func (h scaleHooks) isAnswerTo(hook string) bool {
	a := h.Answer
	return a != nil && a.Operation == h.record.Operation && a.Hook == hook && h.record.HookRequests != nil &&
		slices.Contains(h.record.HookRequests.Keys, hashOf(a.Key))
}

// sendRequest stores the request in the record, and sends it after that write has succeeded.
func (h scaleHooks) sendRequest(hook string) plan.Plan {
	next := h.record.Clone()
	if next.HookRequests == nil {
		next.HookRequests = &api.HookRequests{}
	}
	next.HookRequests.Times++
	next.HookRequests.Last = *operation.Moment(h.Now)
	next.HookRequests.Keys = append(next.HookRequests.Keys, hashOf(h.Key))
	next.HookRequests.Keys = next.HookRequests.Keys[max(0, len(next.HookRequests.Keys)-maxRequestKeys):]
	// The plan has no other write: if that failed, the request would not be sent.
	request := events.HookRequest{HookFacts: resources.HookFacts(h.Set, next, hook), Key: h.Key}
	return plan.Do(api.HookRequested, operation.Store(h.Set, next).Actions()...).
		Then(events.ScaleHookRequested, next.Operation).With(hook+"/"+strconv.Itoa(next.HookRequests.Times), request)
}

// isRequestRecent reports whether the latest request still has time to be answered. Otherwise, it is sent again.
func (h scaleHooks) isRequestRecent() bool {
	ask := h.record.HookRequests
	return ask != nil && operation.Within(h.Now, ask.Last.Time, operation.Backoff(firstRequestInterval, longestRequestInterval, ask.Times))
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
