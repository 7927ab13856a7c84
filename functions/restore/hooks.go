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

// hookState is the progress of a member's hook.
type hookState int

const (
	hookDone       hookState = iota // it has succeeded, or the set has none
	hookMissing                     // it has not been started
	hookUnfinished                  // it is running or not judged yet, or the operation is given up because of it
)

// hookStateOf returns the progress of the member's hook. The member waits for a running hook, and for the judgement of
// one that has ended. A failed hook gives the operation up.
func (w *work) hookStateOf(hook resources.Hook, member *api.Member) hookState {
	template, err := resources.HookTemplate(w.Set, hook)
	job := w.hookJob(hook, member)
	switch {
	case member.Hook == w.hookName(hook, member):
		return hookDone
	case err != nil:
		w.override = w.hookFailed(hook, member, err.Error())
	case template == nil:
		return hookDone
	case statefulset.JobEnd(job).Type == batchv1.JobComplete:
		switch verdict, why := w.judgeHook(job, member); verdict {
		case podend.Succeeded:
			return hookDone
		case podend.Pending:
			w.WaitFor(true, "Job %s is complete, but %s", job.Name, why)
		default:
			w.override = w.hookFailed(hook, member, fmt.Sprintf("Job %s is complete, but %s", job.Name, why))
		}
	case job == nil:
		return hookMissing
	case statefulset.JobEnd(job).Type == batchv1.JobFailed:
		w.override = w.hookFailed(hook, member, fmt.Sprintf("Job %s has failed: %s", job.Name, w.hookFailure(job)))
	default:
		w.WaitFor(job.DeletionTimestamp != nil, "hook %s-member of pod %s-%d is running", hook, w.Name, member.Ordinal)
	}
	return hookUnfinished
}

// judgeHook judges the complete Job of the member's hook, and records a success.
func (w *work) judgeHook(job *batchv1.Job, member *api.Member) (podend.Verdict, string) {
	verdict, why := podend.JudgeJob(w.Now, job, w.Pods, w.Kills)
	if verdict == podend.Succeeded {
		member.Hook, w.Reason = job.Name, api.HookEnded
	}
	return verdict, why
}

// noteHooksBefore records which hooks before the stops of the members have succeeded, also while the gate is closed. When it opens, their
// pods may be gone.
//
// While the cutover is closed, such a member begins another attempt: the next approval or window may be days away, and brings another stop.
// A member with a mover does so when backup replaces the mover. Other conditions of the gate end no attempt, because the hook itself may
// have changed them.
func (w *work) noteHooksBefore(members []*api.Member) {
	shut := resize.CutoverObstacle(w.Observed, w.Record) != ""
	for _, member := range members {
		job := w.hookJob(resources.BeforeMember, member)
		if job != nil && member.Hook != job.Name && statefulset.JobEnd(job).Type == batchv1.JobComplete {
			if verdict, why := w.judgeHook(job, member); verdict == podend.Pending {
				w.WaitFor(true, "Job %s is complete, but %s", job.Name, why)
			}
		}
		hasMover := w.Record.Copies() && member.Pod != ""
		if shut && !hasMover && member.Hook == w.hookName(resources.BeforeMember, member) {
			member.Attempt++
			member.Hook, w.Reason = "", api.GateClosed
		}
	}
}

// hookName returns the name of the Job of the member's hook in this attempt.
func (w *work) hookName(hook resources.Hook, member *api.Member) string {
	return api.HookName(w.Record.Operation, string(hook), member.Ordinal, member.Attempt)
}

// hookJob returns the Job of the member's hook in this attempt, or nil.
func (w *work) hookJob(hook resources.Hook, member *api.Member) *batchv1.Job {
	name := w.hookName(hook, member)
	isHook := func(j *batchv1.Job) bool { return j.Name == name && api.HasLink(j, w.Record.Operation, api.RoleHook) }
	if i := slices.IndexFunc(w.Jobs, isHook); i >= 0 {
		return w.Jobs[i]
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
func (w *work) runHookBefore(member *api.Member) {
	if w.Record.Strategy == api.StrategyRolling {
		w.dryRuns = append(w.dryRuns, plan.TryEvict(w.MemberPod(member.Ordinal)))
	}
	w.runHook(resources.BeforeMember, member)
}

// runHook starts the member's hook. The record is written first.
func (w *work) runHook(hook resources.Hook, member *api.Member) {
	template, err := resources.HookTemplate(w.Set, hook)
	if err != nil || template == nil {
		return // unreachable: the hook's state is hookMissing
	}
	link := w.Record.Link(api.RoleHook, w.Set.Namespace).OfMember(member.Ordinal)
	job := resources.MakeHook(w.Set, hook, template, link, member.Attempt, w.Settings)
	w.Record.Reason = api.HookRunning
	w.Record.Message = fmt.Sprintf("hook %s-member of pod %s-%d runs as Job %s", hook, w.Name, member.Ordinal, job.Name)
	w.Do(api.HookRunning, plan.Create(plan.Jobs, job))
}

// hooksBefore returns the members whose hook must still be started before they stop. It reports false while a hook runs, or if one has
// failed. A member without a pod has no hook, because nothing of it is stopped.
func (w *work) hooksBefore(next []*api.Member) (missing []*api.Member, ready bool) {
	ready = true
	for _, member := range next {
		if w.MemberPod(member.Ordinal) == nil {
			continue
		}
		switch w.hookStateOf(resources.BeforeMember, member) {
		case hookMissing:
			missing = append(missing, member)
		case hookUnfinished:
			ready = false
		}
	}
	return missing, ready
}

// hookFailed gives the operation up because of a hook. No other member is stopped then.
func (w *work) hookFailed(hook resources.Hook, member *api.Member, why string) plan.Plan {
	next, consequence := w.Before.Clone(), "so the pod is not stopped"
	if hook == resources.AfterMember {
		next.Member(member.Ordinal).Phase, consequence = api.MemberMoved, "so no other pod is stopped; the pod stays on its new volumes"
	}
	return revert(w.Input, next, api.HookFailed, fmt.Sprintf("hook %s-member of pod %s-%d did not succeed, %s: %s. Fix that, then %s",
		hook, w.Name, member.Ordinal, consequence, why, operation.HowToRetry(w.Namespace, w.Before)))
}

// maxHookOutput is how many bytes of a hook's output are quoted.
const maxHookOutput = 300

// hookFailure returns how a hook has failed: the exit code and the last output of its container, or the reason of the Job controller.
// Unprintable characters are removed, because a container may print anything.
func (w *work) hookFailure(job *batchv1.Job) string {
	failed := statefulset.JobEnd(job)
	words := failed.Reason + " " + failed.Message
	if pod := w.HookPod(job); pod != nil {
		if name, end := statefulset.FailedContainer(pod); end != nil {
			words = strings.TrimSpace(fmt.Sprintf("container %s exited with %d. %s", name, end.ExitCode, end.Message))
		}
	}
	return text.Line(words, maxHookOutput)
}
