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
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const hookTemplate = "spec: {containers: [{name: sh, image: dev.local/any:1}]}"

// hooks gives the set of the input both hooks.
func hooks(in Input, options ...build.Option) Input {
	again := *in.Observed
	again.Set = build.With(in.Set.DeepCopy(), append([]build.Option{build.Annotation(api.BeforeMemberAnnotation, hookTemplate),
		build.Annotation(api.AfterMemberAnnotation, hookTemplate)}, options...)...)
	in.Observed = &again
	return in
}

// hookJob is the Job of the member's hook in its first attempt, with the conditions.
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
	all := objects{job}
	for _, pod := range build.EndedPods(build.Now, job) {
		all = append(all, pod)
	}
	return all
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

// changedPod returns a complete Job and its changed pod.
func changedPod(change build.Option) objects {
	all := hookJob(beforeIt, 2, batchv1.JobComplete)
	all[1] = build.With(all[1].(*corev1.Pod), change)
	return all
}

// deletedPod deletes a pod, which still exists because the Job controller has not counted it.
func deletedPod(o metav1.Object) {
	o.SetDeletionTimestamp(ptr.To(metav1.NewTime(build.Now)))
	o.SetFinalizers([]string{batchv1.JobTrackingFinalizer})
}

// endedAgo lets the containers of a pod end so long ago.
func endedAgo(ago time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(build.Now.Add(-ago))
	})
}

// withUnread returns the input if the Events about the hooks' pods cannot be read.
func withUnread(in Input) Input {
	in.Kills = podend.Kills{Unread: "reading the Events about pod hook: the server is shutting down"}
	return in
}

// withKill returns the input with an Event of the kubelet that it ended the hook's pod.
func withKill(in Input) Input {
	for uid := range in.Kills.Events {
		in.Kills.Events[uid] = podend.Told{Kill: &corev1.Event{Reason: "Evicted", Message: "The node was low on resource: memory."}}
	}
	return in
}

const (
	beforeIt = resources.BeforeMember
	afterIt  = resources.AfterMember
)

// TestHookRunsBeforeMemberStops: the hook runs once every other condition for the stop holds.
func TestHookRunsBeforeMemberStops(t *testing.T) {
	at := func(more ...objects) Input {
		return hooks(situation(append([]objects{lastOfThree(api.MemberWaiting), otherMembers(), pod(2)}, more...)...))
	}
	shut := hooks(situation(lastOfThree(api.MemberWaiting), otherMembers(notReady()), pod(2)))
	leaving := hookJob(beforeIt, 2)
	leaving[0] = build.With(leaving[0].(*batchv1.Job), build.Deleting(), build.Finalizers("foregroundDeletion"))
	check(t,
		testCase{"01 the gate is closed for another reason: the hook does not run", shut},
		testCase{"02 the gate is open: the budget is asked, and the hook runs", at()},
		testCase{"03 a budget forbids the stop: the hook does not run", with(at(), budgetForbids)},
		testCase{"04 the hook is running", at(hookJob(beforeIt, 2))},
		testCase{"05 the hook is being deleted by hand", at(leaving)},
		testCase{"06 the hook has succeeded: the member is stopped", at(hookJob(beforeIt, 2, batchv1.JobComplete))},
		testCase{"07 the hook has failed: the operation is given up, and no pod is stopped", at(hookJob(beforeIt, 2, batchv1.JobFailed))},
		testCase{"08 the hook has failed, and its container printed the reason",
			at(hookJob(beforeIt, 2, batchv1.JobFailed), hookPod("no other\nmember\x1b[31m"))},
		testCase{"09 the hook has failed with long output",
			at(hookJob(beforeIt, 2, batchv1.JobFailed), hookPod(strings.Repeat("word ", 2000)))},
		testCase{"10 the template was damaged", hooks(at(), build.Annotation(api.BeforeMemberAnnotation, "{"))},
		testCase{"11 the annotation was removed while the hook ran: the hook no longer counts",
			situation(lastOfThree(api.MemberWaiting), otherMembers(), pod(2), hookJob(beforeIt, 2))},
		testCase{"12 the hook of an earlier attempt does not count", hooks(situation(lastOfThree(api.MemberWaiting,
			build.EditMember(2,
				func(m *api.Member) { m.Attempt = 2 })), otherMembers(), pod(2), hookJob(beforeIt, 2, batchv1.JobComplete)))},
		testCase{"13 the gate closes after the hook has succeeded",
			hooks(situation(lastOfThree(api.MemberWaiting), otherMembers(notReady()), pod(2),
				hookJob(beforeIt, 2, batchv1.JobComplete)))},
		testCase{"14 the operation is aborted while the hook runs",
			hooks(at(hookJob(beforeIt, 2)), build.Annotation(api.AbortAnnotation, ""))},
		testCase{"15 the member has no pod: it has no hook",
			hooks(situation(lastOfThree(api.MemberWaiting), otherMembers()), build.Replicas(2))},
		testCase{"16 the others must catch up before the hook runs", withCheck(at())},
		testCase{"17 the others have fallen behind because of the hook",
			with(withCheck(at(hookJob(beforeIt, 2, batchv1.JobComplete))), oneBehind)},
		testCase{"18 the hook's pod was drained and exited with 0: the member is not stopped", at(changedPod(deletedPod))},
		testCase{"19 the hook's pod was evicted and exited with 0: the member is not stopped",
			withKill(at(hookJob(beforeIt, 2, batchv1.JobComplete)))},
		testCase{"20 the hook's pod is gone: the member is not stopped", at(hookJob(beforeIt, 2, batchv1.JobComplete)[:1])},
		testCase{"21 the hook's pod has just ended: the member waits", at(changedPod(endedAgo(0)))},
		testCase{"22 the hook's pod ended an hour ago: the member is not stopped", at(changedPod(endedAgo(time.Hour)))},
		testCase{"23 the Events about the hook's pod cannot be read: the member waits",
			withUnread(at(hookJob(beforeIt, 2, batchv1.JobComplete)))},
		testCase{"24 the hook had succeeded, and its pod is gone now: the member is stopped", hooks(situation(lastOfThree(api.MemberWaiting,
			build.EditMember(2, func(m *api.Member) { m.Hook = api.HookName(id, "before", 2, 1) })), otherMembers(), pod(2),
			hookJob(beforeIt, 2, batchv1.JobComplete)[:1]))},
		testCase{"25 the hook had succeeded in an earlier attempt, and its pod is gone now: it runs again", hooks(situation(
			lastOfThree(api.MemberWaiting, build.EditMember(2, func(m *api.Member) {
				m.Hook, m.Attempt = api.HookName(id, "before", 2, 1), 2
			})), otherMembers(), pod(2), hookJob(beforeIt, 2, batchv1.JobComplete)[:1]))},
	)
}

// TestHookOfEarlierWindowRunsAgain: a hook counts for one stop. When the user's window closes before the stop, the next window brings
// another stop. A member without a mover has no other sign of that.
func TestHookOfEarlierWindowRunsAgain(t *testing.T) {
	done := hookJob(beforeIt, 2, batchv1.JobComplete)
	inPlace := func(cutover string, options ...func(*api.Resize)) Input {
		growing := growingLastOfThree(api.MemberWaiting, claimOfSize(web2, "64Mi", "64Mi"), options...)
		return hooks(situation(growing, otherMembers(), pod(2), done), build.Annotation(api.CutoverAnnotation, cutover))
	}
	const shut, open = "Sat 10:00-10:01", api.CutoverAuto
	succeeded := build.EditMember(2, func(m *api.Member) { m.Hook = api.HookName(id, "before", 2, 1) })
	next := build.EditMember(2, func(m *api.Member) { m.Attempt = 2 })
	check(t,
		testCase{"01 the hook has succeeded within the window: the member is stopped", inPlace(open, succeeded)},
		testCase{"02 the window closes after the hook has succeeded: it no longer counts", inPlace(shut, succeeded)},
		testCase{"03 the hook succeeds after the window has closed: it does not count", inPlace(shut)},
		testCase{"04 the next window opens: the hook runs again", inPlace(open, next)},
		testCase{"05 the window is closed, and the hook is running: its success will not count",
			hooks(situation(growingLastOfThree(api.MemberWaiting, claimOfSize(web2, "64Mi", "64Mi")), otherMembers(), pod(2),
				hookJob(beforeIt, 2)), build.Annotation(api.CutoverAnnotation, shut))},
		testCase{"06 the window closes while another member that stops with it is prepared",
			hooks(situation(setWith(build.Operation(api.Moving, build.Members(api.MemberWaiting, web0, web1), growsInPlace,
				build.EditMember(0, func(m *api.Member) { m.Hook = api.HookName(id, "before", 0, 1) }),
				build.EditMember(1, func(m *api.Member) { m.Phase = api.MemberCopying })), build.Replicas(2)),
				objects{build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web0, web1), growsInPlace))},
				claimOfSize(web0, "64Mi", "64Mi"), claimOfSize(web1, "64Mi", "64Mi"), pod(0), pod(1)),
				build.Annotation(api.CutoverAnnotation, shut))},
		testCase{"07 the window closes, and the member has a mover: the next mover brings another attempt",
			hooks(situation(lastOfThree(api.MemberWaiting, succeeded), otherMembers(), pod(2), done),
				build.Annotation(api.CutoverAnnotation, shut))},
	)
}

// TestHooksRunBeforeMembersStopTogether: the hooks of all members succeed before the first stop.
func TestHooksRunBeforeMembersStopTogether(t *testing.T) {
	at := func(more ...objects) Input {
		return hooks(situation(append([]objects{twoTogether(build.Members(api.MemberWaiting, web0, web1)), pod(0), pod(1)}, more...)...))
	}
	both := func(of0, of1 []batchv1.JobConditionType) []objects {
		job1 := hookJob(beforeIt, 1, of1...)
		job1[0].(*batchv1.Job).UID = "uid-hook-1"
		for _, pod := range job1[1:] {
			pod.(*corev1.Pod).UID, pod.(*corev1.Pod).OwnerReferences[0].UID = "uid-hook-1-x", "uid-hook-1"
		}
		return []objects{hookJob(beforeIt, 0, of0...), job1}
	}
	done := []batchv1.JobConditionType{batchv1.JobComplete}
	check(t,
		testCase{"all hooks start", at()},
		testCase{"one hook is still running", at(both(done, nil)...)},
		testCase{"one hook had succeeded, and its pod is gone while the other runs", hooks(situation(
			twoTogether(build.Members(api.MemberWaiting, web0, web1),
				build.EditMember(0, func(m *api.Member) { m.Hook = api.HookName(id, "before", 0, 1) })), pod(0), pod(1),
			hookJob(beforeIt, 0, done...)[:1], both(done, nil)[1]))},
		testCase{"one hook has succeeded, and the other member is copied again", hooks(situation(
			twoTogether(build.Members(api.MemberWaiting, web0, web1), build.EditMember(1, func(m *api.Member) { m.Phase = api.MemberCopying })),
			pod(0), pod(1), hookJob(beforeIt, 0, done...)))},
		testCase{"the process died between the two", at(hookJob(beforeIt, 0, batchv1.JobComplete))},
		testCase{"one hook has failed while the other runs", at(both([]batchv1.JobConditionType{batchv1.JobFailed}, nil)...)},
		testCase{"all hooks have succeeded: the members are stopped", at(both(done, done)...)},
	)
}

// TestHookRunsAfterMemberStarts: the next member is not stopped before the hook has succeeded.
func TestHookRunsAfterMemberStarts(t *testing.T) {
	fresh := build.UID("uid-fresh")
	at := func(options []func(*api.Resize), more ...objects) Input {
		record := movingOne(api.MemberStarting, append([]func(*api.Resize){build.MemberDue(0, time.Minute)}, options...)...)
		return hooks(situation(append([]objects{setWith(record), journalOf(web0), pod(0, fresh), swappedClaim(web0)}, more...)...))
	}
	ready := []func(*api.Resize){build.EditMember(0, func(m *api.Member) { m.ReadyAt = m.ReleasedAt })}
	late := append(ready, build.MemberDue(0, -time.Second))
	check(t,
		testCase{"01 the pod is ready: the hook runs", at(nil)},
		testCase{"02 the hook is running", at(ready, hookJob(afterIt, 0))},
		testCase{"03 the hook runs past the deadline for readiness", at(late, hookJob(afterIt, 0))},
		testCase{"04 the hook has succeeded: the member is moved", at(ready, hookJob(afterIt, 0, batchv1.JobComplete))},
		testCase{"05 the hook has failed: the operation is given up, and the member stays on its new volumes",
			at(ready, hookJob(afterIt, 0, batchv1.JobFailed))},
		testCase{"06 the pod has not caught up: the hook does not run", with(withCheck(at(nil)), freshLags)},
		testCase{"07 the pod has caught up: the hook runs", with(withCheck(at(nil)), freshGood)},
		testCase{"08 the hook is running: the pod is not asked again", withCheck(at(ready, hookJob(afterIt, 0)))},
	)
}

// TestHooksAreRemovedWithOperation: hooks are removed like movers.
func TestHooksAreRemovedWithOperation(t *testing.T) {
	finishing := setWith(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0), build.Due(time.Minute)))
	reverts := setWith(build.Operation(api.Reverting, build.Members(api.MemberKept, web0), build.Due(time.Minute)))
	gone := hookJob(beforeIt, 0, batchv1.JobComplete)
	gone[0] = build.With(gone[0].(*batchv1.Job), build.Deleting(), build.Finalizers("foregroundDeletion"))
	check(t,
		testCase{"the operation has succeeded",
			hooks(situation(finishing, journalOf(web0), pod(0), tidiedClaim(), hookJob(beforeIt, 0, batchv1.JobComplete)))},
		testCase{"a hook is being deleted", hooks(situation(finishing, journalOf(web0), pod(0), tidiedClaim(), gone))},
		testCase{"the operation is given up while a hook runs",
			hooks(situation(reverts, journalOf(web0), pod(0), source(web0), hookJob(beforeIt, 0)))},
	)
}
