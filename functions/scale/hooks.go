package scale

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/scaling"
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
