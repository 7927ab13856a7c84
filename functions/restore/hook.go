package restore

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
)

// hookState is how far the hook of a member is.
type hookState int

const (
	hookDone    hookState = iota // it has succeeded, or there is none to run
	hookMissing                  // it has not been begun
	hookBusy                     // it runs, or the operation is given up because of it
)

// stateOf says how far the member's hook is. The member waits for a hook that runs; a failed hook gives the operation up.
func (w *work) stateOf(hook resources.Hook, member *api.Member) hookState {
	template, err := resources.HookTemplate(w.Set, hook)
	job := w.hookJob(hook, member)
	switch {
	case err != nil:
		w.given = w.hookFailed(hook, member, err.Error())
	case template == nil || job != nil && ended(job, batchv1.JobComplete) != nil:
		return hookDone
	case job == nil:
		return hookMissing
	case ended(job, batchv1.JobFailed) != nil:
		w.given = w.hookFailed(hook, member, fmt.Sprintf("Job %s has failed: %s", job.Name, w.hookWords(job)))
	default:
		w.waitFor(job.DeletionTimestamp != nil, "hook %s-member of pod %s-%d", hook, w.Name, member.Ordinal)
	}
	return hookBusy
}

// hookJob returns the Job of the member's hook in this attempt; nil if there is none.
func (w *work) hookJob(hook resources.Hook, member *api.Member) *batchv1.Job {
	name := api.HookName(w.record.Operation, string(hook), member.Ordinal, member.Attempt)
	isHook := func(j *batchv1.Job) bool { return j.Name == name && api.Linked(j, w.record.Operation, api.RoleHook) }
	if i := slices.IndexFunc(w.Jobs, isHook); i >= 0 {
		return w.Jobs[i]
	}
	return nil
}

// runBefore begins the hook before a member is stopped. In a rolling resize the PodDisruptionBudgets are asked first: a hook that makes
// another member the primary must not run in vain.
func (w *work) runBefore(member *api.Member) {
	if w.record.Strategy == api.StrategyRolling {
		w.tries = append(w.tries, plan.TryEvict(w.MemberPod(member.Ordinal)))
	}
	w.runHook(resources.BeforeMember, member)
}

// runHook begins the member's hook. The record says so first.
func (w *work) runHook(hook resources.Hook, member *api.Member) {
	template, err := resources.HookTemplate(w.Set, hook)
	if err != nil || template == nil {
		return // unreachable: its state is missing
	}
	link := api.Link{Operation: w.record.Operation, Role: api.RoleHook, Namespace: w.Set.Namespace, Set: w.record.Set, Member: &member.Ordinal}
	job := resources.MakeHook(w.Set, hook, template, link, member.Attempt, w.Settings)
	w.record.Reason = api.HookRunning
	w.record.Message = fmt.Sprintf("hook %s-member of pod %s-%d runs as Job %s", hook, w.Name, member.Ordinal, job.Name)
	w.do(api.HookRunning, plan.Create(plan.Jobs, job))
}

// hooksBefore returns the members whose hook is still to be begun before they are stopped. It reports false while one runs, or if one has
// failed. A member without a pod has none: nothing of it is stopped.
func (w *work) hooksBefore(next []*api.Member) (missing []*api.Member, rest bool) {
	rest = true
	for _, member := range next {
		if w.MemberPod(member.Ordinal) == nil {
			continue
		}
		switch w.stateOf(resources.BeforeMember, member) {
		case hookMissing:
			missing = append(missing, member)
		case hookBusy:
			rest = false
		}
	}
	return missing, rest
}

// hookAfter has the hook run after a member, which is moved when that has succeeded.
func (w *work) hookAfter(member *api.Member) {
	switch w.stateOf(resources.AfterMember, member) {
	case hookMissing:
		w.do(api.HookRunning, endMovers(w.Input, w.record, member)...)
		w.runHook(resources.AfterMember, member)
	case hookDone:
		w.moved(member)
	}
}

// hookFailed gives the operation up because of a hook: no other member is stopped then.
func (w *work) hookFailed(hook resources.Hook, member *api.Member, why string) plan.Plan {
	next, stays := w.before.Clone(), "so the pod is not stopped"
	if hook == resources.AfterMember {
		next.Member(member.Ordinal).Phase, stays = api.MemberMoved, "so no other pod is stopped; the pod stays on its new volumes"
	}
	return revert(w.Input, next, api.HookFailed, fmt.Sprintf("hook %s-member of pod %s-%d did not succeed, %s: %s. Mend that, then %s",
		hook, w.Name, member.Ordinal, stays, why, operation.AskAgain(w.before)))
}

// ended returns the condition that the Job has come to this end; nil if it has not.
func ended(job *batchv1.Job, how batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Type == how && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// mostHookWords is how many bytes of a hook's output are quoted.
const mostHookWords = 300

// hookWords returns how a hook has failed: the exit code and the last words of its container, or the words of the Job controller. A
// container may print anything.
func (w *work) hookWords(job *batchv1.Job) string {
	words := ""
	if c := ended(job, batchv1.JobFailed); c != nil {
		words = c.Reason + " " + c.Message
	}
	if pod := w.HookPod(job); pod != nil {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				words = strings.TrimSpace(fmt.Sprintf("container %s exited with %d. %s", c.Name, t.ExitCode, t.Message))
				break
			}
		}
	}
	words = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(words, ""))
	if len(words) > mostHookWords {
		words = strings.ToValidUTF8(words[:mostHookWords], "") + "…"
	}
	return strings.TrimSpace(words)
}
