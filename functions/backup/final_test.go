package backup

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestFinalPass is the story of a member from its stop to the swap.
func TestFinalPass(t *testing.T) {
	told := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	final := func(report moverreport.MemberReport, phase corev1.PodPhase) build.Option {
		report.Stage = moverreport.FinalContainer
		return says(moverreport.FinalContainer, report, phase)
	}
	fifth := build.EditMember(0, func(m *api.Member) { m.Attempt, m.FinalTries = maxFinalTries, maxFinalTries-1 })
	young := build.Edit(func(c *corev1.PersistentVolumeClaim) { build.Age(-time.Minute)(c) })
	without := append(set(moving0(api.MemberFinalPass)), append(journal(web0), held(0)...)...)
	done := moverPod(1, build.Copied(signal))
	check(t,
		row{"01 the mover that waits is told", given(stopped(), moverPod(1, build.Waits()))},
		row{"02 it was told: its end is waited for", given(stopped(), moverPod(1, build.Waits(), told))},
		row{"03 its final pass has ended with a verified copy: nothing else of the pod is waited for",
			given(stopped(), moverPod(1, build.Copied(signal), build.InPhase(corev1.PodPending)))},
		row{"04 it has made a verified copy for this hold: restore is next", given(stopped(), done)},
		row{"05 a verified copy for another hold counts for nothing: the volume is finished, and another one is made",
			given(stopped(), moverPod(1, build.Copied(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
		row{"06 a verified copy of an attempt before counts for nothing",
			given(stopped(build.EditMember(0, func(m *api.Member) { m.Attempt = 2 })), moverPod(2, build.Copied(signal)))},
		row{"07 it has ended well without a word: its volume may not be whole",
			given(stopped(), moverPod(1, build.InPhase(corev1.PodSucceeded)))},
		row{"07 its report cannot be read: its volume may not be whole", given(stopped(), moverPod(1, build.Copied(signal),
			build.Edit(func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State.Terminated.Message = "" })))},
		row{"07 its pin was evicted: the copy counts", given(stopped(), moverPod(1, build.Copied(signal), build.InPhase(corev1.PodFailed)))},
		row{"08 the temporary claim was deleted and made anew since: it is empty", given(without, source(web0), target(web0, young), done)},
		row{"09 the temporary claim is gone", given(without, source(web0), done)},
		row{"10 the temporary claim is being deleted", given(without, source(web0), target(web0, build.Deleting()), done)},
		row{"11 there is no mover: one is made that begins with the word", given(stopped())},
		row{"12 there is no temporary claim, and no mover", given(without, source(web0))},
		row{"13 the mover has lost its lease before it was told: another one is made",
			given(stopped(), failedJob(1, final(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeLeaseLost},
				corev1.PodFailed)))},
		row{"14 the fifth mover has ended before its word", given(stopped(fifth), func() objects {
			job := build.Job(0, maxFinalTries, build.Failed("BackoffLimitExceeded", "it has failed too often"))
			return objects{job, build.Mover(job, onNode, final(moverreport.MemberReport{Result: moverreport.ResultFailed,
				Code: moverreport.CodeLeaseLost}, corev1.PodFailed))}
		}())},
		row{"15 the final pass has failed", given(stopped(), failedJob(1,
			final(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeIO, Reason: "IOError",
				Message: "data: input/output error"}, corev1.PodFailed)))},
		row{"16 the first passes did not converge, but the member has stopped: another mover is made",
			given(stopped(), failedJob(1, says(moverreport.FirstContainer,
				moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultNotConverged}, corev1.PodFailed)))},
		row{"17 the Job is being deleted", given(stopped(), objects{build.Job(0, 1, build.Deleting())})},
		row{"18 the hold is gone: restore sees it", given(append(set(moving0(api.MemberFinalPass)), append(journal(web0), pod(0)...)...),
			source(web0), target(web0), moverPod(1, build.Waits()))},
		row{"00 it is being stopped: the lease of its mover is renewed",
			given(append(set(moving0(api.MemberStopping)), append(journal(web0), pod(0, build.Held(0), build.Deleting())...)...),
				source(web0), target(web0), moverPod(1, build.Waits()))},
		row{"19 the pod was replaced: restore sees it", given(append(set(moving0(api.MemberFinalPass)),
			append(journal(web0), held(0, build.UID("uid-other"))...)...), source(web0), target(web0), moverPod(1, build.Waits()))},
	)
}

// TestMoverThatIsLostInItsFinalPassIsReplaced: what it has completed already bears no mark of its operation any more, so the next one is
// told to take it. Else the operation would fail, and keep the copies as data of others.
func TestMoverThatIsLostInItsFinalPassIsReplaced(t *testing.T) {
	filled := build.EditMember(0, func(m *api.Member) { m.Claims[0].Files = 3 })
	refused := says(moverreport.FirstContainer, moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultFailed,
		Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty}, corev1.PodFailed)
	refills := func(p plan.Plan) bool {
		return slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
			job, is := a.Object.(*batchv1.Job)
			return is && slices.Contains(job.Spec.Template.Spec.InitContainers[0].Args, "--refill")
		})
	}
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"its Job was deleted":                            {given(stopped(filled)), true},
		"its Job has made another pod, which is refused": {given(stopped(filled), failedJob(1, refused)), true},
		"no mover has taken the target before":           {given(stopped()), false},
		"a mover that was never told is lost":            {given(copying(filled), pod(0)), false},
	} {
		p := Decide(row.in)
		if record := build.Stored(p); refills(p) != row.want || record != nil && record.Phase != api.Moving {
			t.Errorf("%s: %s", name, p)
		}
	}
	if p := Decide(given(stopped(), failedJob(1, refused))); p.Reason != api.NotProvisioned {
		t.Errorf("a target with data of others is not kept: %s", p)
	}
}

// TestRenewedTargetIsNotTakenForOneOfOurs: it may hold data of others, whatever was copied to the one before.
func TestRenewedTargetIsNotTakenForOneOfOurs(t *testing.T) {
	filled := build.EditMember(0, func(m *api.Member) { m.Claims[0].Files = 3 })
	p := Decide(given(stopped(filled), moverPod(1, build.Copied(moverreport.Signal{Hold: "uid-before", Attempt: 1}))))
	if move := build.Stored(p).Members[0].Claims[0]; move.Copies != 1 || move.Files != 0 {
		t.Errorf("%+v", move)
	}
	p = Decide(given(set(moving0(api.MemberFinalPass, filled)), journal(web0), held(0), source(web0)))
	if stored := build.Stored(p); stored == nil || stored.Members[0].Claims[0].Files != 0 {
		t.Errorf("its temporary claim was deleted, and is made again: %s", p)
	}
}

// TestLeaseOfPin: a mover that keeps the volumes attached ends when nobody renews its lease, so that is done as long as they are swapped.
func TestLeaseOfPin(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		all := append(set(moving0(phase, append(options, provisioned)...)), append(journal(web0), held(0)...)...)
		return append(all, append(source(web0), target(web0)...)...)
	}
	since := func(d time.Duration) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			build.Age(d)(p)
			for i := range p.Status.InitContainerStatuses {
				p.Status.InitContainerStatuses[i].State.Terminated.FinishedAt = ago(d)
			}
		})
	}
	earlier := build.EditMember(0, func(m *api.Member) { m.Stopped = operation.Moment(build.Now.Add(-time.Minute)) })
	check(t,
		row{"a short swap renews nothing", given(at(api.MemberSwapping), moverPod(1, build.Copied(signal), since(renewEvery-time.Second)))},
		row{"a swap that lasts renews it", given(at(api.MemberSwapping), moverPod(1, build.Copied(signal), since(renewEvery+time.Second)))},
		row{"it was renewed in the swap, and the clock of its node is ahead", given(at(api.MemberSwapping, earlier),
			moverPod(1, build.Copied(signal), since(time.Second), renewedBefore(renewEvery+time.Second)))},
		row{"one that has ended has no lease", given(at(api.MemberSwapping),
			moverPod(1, build.Copied(signal), since(renewEvery+time.Second), build.InPhase(corev1.PodFailed)))},
		row{"a member that starts needs it for a moment only", given(at(api.MemberStarting),
			moverPod(1, build.Copied(signal), since(renewEvery+time.Second)))},
	)
}

// TestLeaseOfWaitingMover: its lease begins with its container, on the clock of its node.
func TestLeaseOfWaitingMover(t *testing.T) {
	since := func(d time.Duration) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			build.Waits()(p)
			p.Status.InitContainerStatuses[1].State.Running.StartedAt = ago(d)
		})
	}
	check(t,
		row{"it has just begun: nothing is written to its pod", given(copying(), pod(0), moverPod(1, since(renewEvery-time.Second)))},
		row{"it waits for long", given(copying(), pod(0), moverPod(1, since(renewEvery+time.Second)))},
		row{"the clock of its node is ahead", given(copying(), pod(0), moverPod(1, since(-time.Hour)))},
		row{"the clock of its node is ahead, and its lease was renewed before: the container's start does not count any more",
			given(copying(), pod(0), moverPod(1, since(time.Second), renewedBefore(renewEvery+time.Second)))},
	)
}

func renewedBefore(d time.Duration) build.Option {
	return build.Annotation(moverreport.LeaseAnnotation, moment(build.Now.Add(-d)))
}
