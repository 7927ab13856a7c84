package restore

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// hooks runs the user's hooks before and after a member.
type memberHooks struct{ *work }

func (w *work) memberHooks() memberHooks { return memberHooks{w} }

// hookState is the progress of a member's hook.
type hookState int

const (
	hookDone       hookState = iota // it has succeeded, or the set has none
	hookMissing                     // it has not been started
	hookUnfinished                  // it is running or not judged yet, or the operation is given up because of it
)

// hookStateOf returns the progress of the member's hook. The member waits for a running hook, and for the judgement of
// one that has ended. A failed hook gives the operation up.
func (h memberHooks) hookStateOf(hook resources.Hook, member *api.Member) hookState {
	template, err := resources.HookTemplate(h.Set, hook)
	job := h.hookJob(hook, member)
	switch {
	case member.Hook == h.hookName(hook, member):
		return hookDone
	case err != nil:
		h.override = h.hookFailed(hook, member, err.Error())
	case template == nil:
		return hookDone
	case statefulset.JobEnd(job).Type == batchv1.JobComplete:
		switch verdict, why := h.judgeHook(job, member); verdict {
		case podend.Succeeded:
			return hookDone
		case podend.Pending:
			h.WaitFor(true, "Job %s is complete, but %s", job.Name, why)
		default:
			h.override = h.hookFailed(hook, member, fmt.Sprintf("Job %s is complete, but %s", job.Name, why))
		}
	case job == nil:
		return hookMissing
	case statefulset.JobEnd(job).Type == batchv1.JobFailed:
		h.override = h.hookFailed(hook, member, fmt.Sprintf("Job %s has failed: %s", job.Name, h.hookFailure(job)))
	default:
		h.WaitFor(job.DeletionTimestamp != nil, "hook %s-member of pod %s-%d is running", hook, h.Name, member.Ordinal)
	}
	return hookUnfinished
}

// judgeHook judges the complete Job of the member's hook, and records a success.
func (h memberHooks) judgeHook(job *batchv1.Job, member *api.Member) (podend.Verdict, string) {
	verdict, why := podend.JudgeJob(h.Now, job, h.Pods, h.Kills)
	if verdict == podend.Succeeded {
		member.Hook, h.Reason = job.Name, api.HookEnded
	}
	return verdict, why
}

// noteHooksBefore records which hooks before the stops of the members have succeeded, also while the gate is closed. When it opens, their
// pods may be gone.
//
// While the cutover is closed, such a member begins another attempt: the next approval or window may be days away, and brings another stop.
// A member with a mover does so when backup replaces the mover. Other conditions of the gate end no attempt, because the hook itself may
// have changed them.
func (h memberHooks) noteHooksBefore(members []*api.Member) {
	shut := resize.CutoverObstacle(h.Observed, h.Record) != ""
	for _, member := range members {
		job := h.hookJob(resources.BeforeMember, member)
		if job != nil && member.Hook != job.Name && statefulset.JobEnd(job).Type == batchv1.JobComplete {
			if verdict, why := h.judgeHook(job, member); verdict == podend.Pending {
				h.WaitFor(true, "Job %s is complete, but %s", job.Name, why)
			}
		}
		hasMover := h.Record.Copies() && member.Pod != ""
		if shut && !hasMover && member.Hook == h.hookName(resources.BeforeMember, member) {
			member.Attempt++
			member.Hook, h.Reason = "", api.GateClosed
		}
	}
}

// hookName returns the name of the Job of the member's hook in this attempt.
func (h memberHooks) hookName(hook resources.Hook, member *api.Member) string {
	return api.HookName(h.Record.Operation, string(hook), member.Ordinal, member.Attempt)
}

// hookJob returns the Job of the member's hook in this attempt, or nil.
func (h memberHooks) hookJob(hook resources.Hook, member *api.Member) *batchv1.Job {
	name := h.hookName(hook, member)
	isHook := func(j *batchv1.Job) bool { return j.Name == name && api.HasLink(j, h.Record.Operation, api.RoleHook) }
	if i := slices.IndexFunc(h.Jobs, isHook); i >= 0 {
		return h.Jobs[i]
	}
	return nil
}

// endedHookPods returns the pods of the active operation's hooks whose Job is complete.
func (in Input) endedHookPods() []*corev1.Pod {
	record, err := in.Record()
	if err != nil || !record.Active() {
		return nil // decide reports an unreadable record
	}
	var pods []*corev1.Pod
	for _, job := range in.HooksOf(record.Operation) {
		if statefulset.JobEnd(job).Type != batchv1.JobComplete {
			continue
		}
		for _, pod := range in.Pods {
			if metav1.IsControlledBy(pod, job) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// runHookBefore starts the hook before a member is stopped. In a rolling resize, a dry run asks the PodDisruptionBudgets first: a hook
// that makes another member the primary must not run in vain.
func (h memberHooks) runHookBefore(member *api.Member) {
	if h.Record.Strategy == api.StrategyRolling {
		h.dryRuns = append(h.dryRuns, plan.TryEvict(h.MemberPod(member.Ordinal)))
	}
	h.runHook(resources.BeforeMember, member)
}

// runHook starts the member's hook. The record is written first.
func (h memberHooks) runHook(hook resources.Hook, member *api.Member) {
	template, err := resources.HookTemplate(h.Set, hook)
	if err != nil || template == nil {
		return // unreachable: the hook's state is hookMissing
	}
	link := h.Record.Link(api.RoleHook, h.Set.Namespace).OfMember(member.Ordinal)
	job := resources.MakeHook(h.Set, hook, template, link, member.Attempt, h.Settings)
	h.Record.Reason = api.HookRunning
	h.Record.Message = fmt.Sprintf("hook %s-member of pod %s-%d runs as Job %s", hook, h.Name, member.Ordinal, job.Name)
	h.Do(api.HookRunning, plan.Create(plan.Jobs, job))
}

// hooksBefore returns the members whose hook must still be started before they stop. It reports false while a hook runs, or if one has
// failed. A member without a pod has no hook, because nothing of it is stopped.
func (h memberHooks) hooksBefore(next []*api.Member) (missing []*api.Member, ready bool) {
	ready = true
	for _, member := range next {
		if h.MemberPod(member.Ordinal) == nil {
			continue
		}
		switch h.hookStateOf(resources.BeforeMember, member) {
		case hookMissing:
			missing = append(missing, member)
		case hookUnfinished:
			ready = false
		}
	}
	return missing, ready
}

// hookFailed gives the operation up because of a hook. No other member is stopped then.
func (h memberHooks) hookFailed(hook resources.Hook, member *api.Member, why string) plan.Plan {
	next, consequence := h.Before.Clone(), "so the pod is not stopped"
	if hook == resources.AfterMember {
		next.Member(member.Ordinal).Phase, consequence = api.MemberMoved, "so no other pod is stopped; the pod stays on its new volumes"
	}
	return revert(h.Input, next, api.HookFailed, fmt.Sprintf("hook %s-member of pod %s-%d did not succeed, %s: %s. Fix that, then %s",
		hook, h.Name, member.Ordinal, consequence, why, operation.HowToRetry(h.Namespace, h.Before)))
}

// maxHookOutput is how many bytes of a hook's output are quoted.
const maxHookOutput = 300

// hookFailure returns how a hook has failed: the exit code and the last output of its container, or the reason of the Job controller.
// Unprintable characters are removed, because a container may print anything.
func (h memberHooks) hookFailure(job *batchv1.Job) string {
	failed := statefulset.JobEnd(job)
	words := failed.Reason + " " + failed.Message
	if pod := h.HookPod(job); pod != nil {
		if name, end := statefulset.FailedContainer(pod); end != nil {
			words = strings.TrimSpace(fmt.Sprintf("container %s exited with %d. %s", name, end.ExitCode, end.Message))
		}
	}
	return text.Line(words, maxHookOutput)
}
