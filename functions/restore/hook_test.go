package restore

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const hookTemplate = "spec: {containers: [{name: sh, image: dev.local/any:1}]}"

// hooks gives the set in a world both hooks.
func hooks(in Input, options ...build.Option) Input {
	again := *in.Observed
	again.Set = build.With(in.Set.DeepCopy(), append([]build.Option{build.Annotation(api.BeforeMemberAnnotation, hookTemplate),
		build.Annotation(api.AfterMemberAnnotation, hookTemplate)}, options...)...)
	in.Observed = &again
	return in
}

// hookJob is the Job of the member's hook in its first attempt, with a condition if one is given.
func hookJob(hook resources.Hook, ordinal int, conditions ...batchv1.JobConditionType) objects {
	set := build.Set("web")
	link := api.Link{Operation: id, Role: api.RoleHook, Namespace: set.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: &ordinal}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh"}}}}
	job := resources.MakeHook(set, hook, template, link, 1, build.Settings())
	job.UID, job.ResourceVersion = "uid-hook", "rv-hook"
	for _, c := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue,
			Reason: "BackoffLimitExceeded", Message: "too many"})
	}
	return objects{job}
}

// hookPod is the pod of a hook's Job that has exited with 3.
func hookPod(words string) objects {
	pod := build.Pod("hook-abcde", nil, build.InPhase(corev1.PodFailed))
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "hook", UID: "uid-hook",
		Controller: ptr.To(true)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sh", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: words}}}}
	return objects{pod}
}

const (
	beforeIt = resources.BeforeMember
	afterIt  = resources.AfterMember
)

// TestHookBeforeAMemberIsStopped: it runs when all else lets the member stop.
func TestHookBeforeAMemberIsStopped(t *testing.T) {
	at := func(more ...objects) Input {
		return hooks(given(append([]objects{rolling3(api.MemberWaiting), others(), pod(2)}, more...)...))
	}
	shut := hooks(given(rolling3(api.MemberWaiting), others(notReady()), pod(2)))
	leaving := hookJob(beforeIt, 2)
	leaving[0] = build.With(leaving[0].(*batchv1.Job), build.Deleting(), build.Finalizers("foregroundDeletion"))
	check(t,
		row{"01 the gate is shut for another reason: it is not run", shut},
		row{"02 the gate is open: the budget is asked, and the hook is run", at()},
		row{"03 a budget does not allow the stop: it is not run", but(at(), forbidden)},
		row{"04 it runs", at(hookJob(beforeIt, 2))},
		row{"05 it is being deleted by hand", at(leaving)},
		row{"06 it has succeeded: the member is stopped", at(hookJob(beforeIt, 2, batchv1.JobComplete))},
		row{"07 it has failed: the operation is given up, no pod is stopped", at(hookJob(beforeIt, 2, batchv1.JobFailed))},
		row{"08 it has failed, and its container has said why", at(hookJob(beforeIt, 2, batchv1.JobFailed), hookPod("no other\nmember\x1b[31m"))},
		row{"09 it has failed with many words", at(hookJob(beforeIt, 2, batchv1.JobFailed), hookPod(strings.Repeat("word ", 2000)))},
		row{"10 the template was damaged meanwhile", hooks(at(), build.Annotation(api.BeforeMemberAnnotation, "{"))},
		row{"11 the annotation was removed while it ran: it does not matter any more",
			given(rolling3(api.MemberWaiting), others(), pod(2), hookJob(beforeIt, 2))},
		row{"12 the hook of an earlier attempt does not count", hooks(given(rolling3(api.MemberWaiting,
			build.EditMember(2, func(m *api.Member) { m.Attempt = 2 })), others(), pod(2), hookJob(beforeIt, 2, batchv1.JobComplete)))},
		row{"13 the gate is shut after it has succeeded", hooks(given(rolling3(api.MemberWaiting), others(notReady()), pod(2),
			hookJob(beforeIt, 2, batchv1.JobComplete)))},
		row{"14 the operation is aborted while it runs", hooks(at(hookJob(beforeIt, 2)), build.Annotation(api.AbortAnnotation, ""))},
		row{"15 the member has no pod: it has no hook", hooks(given(rolling3(api.MemberWaiting), others()), build.Replicas(2))},
		row{"16 the others have to have caught up before it", checks(at())},
		row{"17 the others have fallen behind by it", but(checks(at(hookJob(beforeIt, 2, batchv1.JobComplete))), oneBehind)},
	)
}

// TestHooksBeforeMembersThatStopTogether: all of them run first.
func TestHooksBeforeMembersThatStopTogether(t *testing.T) {
	at := func(more ...objects) Input {
		return hooks(given(append([]objects{whole2(build.Members(api.MemberWaiting, web0, web1)), pod(0), pod(1)}, more...)...))
	}
	both := func(of0, of1 []batchv1.JobConditionType) []objects {
		job1 := hookJob(beforeIt, 1, of1...)
		job1[0].(*batchv1.Job).UID = "uid-hook-1"
		return []objects{hookJob(beforeIt, 0, of0...), job1}
	}
	done := []batchv1.JobConditionType{batchv1.JobComplete}
	check(t,
		row{"all are run", at()},
		row{"one runs still", at(both(done, nil)...)},
		row{"the process died between the two", at(hookJob(beforeIt, 0, batchv1.JobComplete))},
		row{"one has failed while the other runs", at(both([]batchv1.JobConditionType{batchv1.JobFailed}, nil)...)},
		row{"all have succeeded: the members are stopped", at(both(done, done)...)},
	)
}

// TestHookAfterAMemberHasStarted: the next member is not stopped before it has succeeded.
func TestHookAfterAMemberHasStarted(t *testing.T) {
	fresh := build.UID("uid-fresh")
	at := func(options []func(*api.Resize), more ...objects) Input {
		record := moving0(api.MemberStarting, append([]func(*api.Resize){build.MemberDue(0, time.Minute)}, options...)...)
		return hooks(given(append([]objects{set(record), journal(web0), pod(0, fresh), switched(web0)}, more...)...))
	}
	ready := []func(*api.Resize){build.EditMember(0, func(m *api.Member) { m.Ready = m.Released })}
	late := append(ready, build.MemberDue(0, -time.Second))
	check(t,
		row{"01 the pod is ready: it is run", at(nil)},
		row{"02 it runs", at(ready, hookJob(afterIt, 0))},
		row{"03 it runs for longer than the pod may take to be ready", at(late, hookJob(afterIt, 0))},
		row{"04 it has succeeded: the member is moved", at(ready, hookJob(afterIt, 0, batchv1.JobComplete))},
		row{"05 it has failed: the operation is given up, the member stays on its new volumes",
			at(ready, hookJob(afterIt, 0, batchv1.JobFailed))},
		row{"06 the pod has not caught up: it is not run", but(checks(at(nil)), freshLags)},
		row{"07 the pod has caught up: it is run", but(checks(at(nil)), freshGood)},
		row{"08 it runs: the pod is not asked any more", checks(at(ready, hookJob(afterIt, 0)))},
	)
}

// TestHooksGoWithTheirOperation: they are removed as movers are.
func TestHooksGoWithTheirOperation(t *testing.T) {
	finishing := set(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0), build.Due(time.Minute)))
	reverts := set(build.Operation(api.Reverting, build.Members(api.MemberKept, web0), build.Due(time.Minute)))
	gone := hookJob(beforeIt, 0, batchv1.JobComplete)
	gone[0] = build.With(gone[0].(*batchv1.Job), build.Deleting(), build.Finalizers("foregroundDeletion"))
	check(t,
		row{"the operation has succeeded", hooks(given(finishing, journal(web0), pod(0), tidied(), hookJob(beforeIt, 0, batchv1.JobComplete)))},
		row{"a hook is being deleted", hooks(given(finishing, journal(web0), pod(0), tidied(), gone))},
		row{"the operation is given up while a hook runs", hooks(given(reverts, journal(web0), pod(0), source(web0), hookJob(beforeIt, 0)))},
	)
}
