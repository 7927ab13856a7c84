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

// TestFinalPass follows a member from its stop to the swap.
func TestFinalPass(t *testing.T) {
	signalled := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	final := func(report moverreport.MemberReport, phase corev1.PodPhase) build.Option {
		report.Stage = moverreport.FinalContainer
		return reporting(moverreport.FinalContainer, report, phase)
	}
	fifth := build.EditMember(0, func(m *api.Member) { m.Attempt, m.FinalTries = maxFinalTries, maxFinalTries-1 })
	replaced := build.UID("uid-of-another-claim")
	without := append(set(whileMoving(api.MemberFinalPass)), append(journal(web0), heldPod(0)...)...)
	done := moverPod(1, build.FinalPassSucceeded(signal))
	check(
		t,
		row{"01 the waiting mover is signalled", given(stopped(), moverPod(1, build.FirstPassConverged()))},
		row{"02 the mover was signalled: backup waits for its end", given(stopped(), moverPod(1, build.FirstPassConverged(), signalled))},
		row{"03 the final pass has ended with a verified copy: the rest of the pod does not matter",
			given(stopped(), moverPod(1, build.FinalPassSucceeded(signal), build.InPhase(corev1.PodPending)))},
		row{"04 the mover has made a verified copy for this hold: restore is next", given(stopped(), done)},
		row{"05 a verified copy for another hold does not count: it is discarded, and a new volume is provisioned",
			given(stopped(), moverPod(1, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
		row{"06 a verified copy of an earlier attempt does not count",
			given(stopped(build.EditMember(0, func(m *api.Member) { m.Attempt = 2 })), moverPod(2, build.FinalPassSucceeded(signal)))},
		row{"07 the mover succeeded without a report: the copy may be incomplete",
			given(stopped(), moverPod(1, build.InPhase(corev1.PodSucceeded)))},
		row{"07 the report is unreadable: the copy may be incomplete", given(stopped(), moverPod(1, build.FinalPassSucceeded(signal),
			build.Edit(func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State.Terminated.Message = "" })))},
		row{
			"07 the pin was evicted: the copy counts",
			given(stopped(), moverPod(1, build.FinalPassSucceeded(signal), build.InPhase(corev1.PodFailed))),
		},
		row{"08 the temporary claim was deleted and created again: it is empty", given(without, source(web0), target(web0, replaced), done)},
		row{"09 the temporary claim is gone", given(without, source(web0), done)},
		row{"09 the temporary claim and the mover are gone", given(without, source(web0))},
		row{"09 the temporary claim, the mover and the claim are gone", given(without)},
		row{"10 the temporary claim is being deleted", given(without, source(web0), target(web0, build.Deleting()), done)},
		row{"11 there is no mover: a new one starts with the signal", given(stopped())},
		row{"12 there is no temporary claim, and no mover", given(without, source(web0))},
		row{"13 the mover lost its lease before the signal: it is replaced",
			given(stopped(), failedJob(1, final(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeLeaseLost},
				corev1.PodFailed)))},
		row{"14 the fifth mover ended before the signal", given(stopped(fifth), func() objects {
			job := build.Job(0, maxFinalTries, build.Failed("BackoffLimitExceeded", "it has failed too often"))
			return objects{job, build.Mover(job, onNode, final(moverreport.MemberReport{Result: moverreport.ResultFailed,
				Code: moverreport.CodeLeaseLost}, corev1.PodFailed))}
		}())},
		row{"15 the final pass has failed", given(stopped(), failedJob(1,
			final(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeIO, Reason: "IOError",
				Message: "data: input/output error"}, corev1.PodFailed)))},
		row{"16 the first passes did not converge, but the member has stopped: the mover is replaced",
			given(stopped(), failedJob(1, reporting(moverreport.FirstContainer,
				moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultNotConverged}, corev1.PodFailed)))},
		row{"17 the Job is being deleted", given(stopped(), objects{build.Job(0, 1, build.Deleting())})},
		row{"18 the hold is gone: restore handles it", given(append(set(whileMoving(api.MemberFinalPass)), append(journal(web0), pod(0)...)...),
			source(web0), target(web0), moverPod(1, build.FirstPassConverged()))},
		row{"00 the member is being stopped: the mover's lease is renewed",
			given(append(set(whileMoving(api.MemberStopping)), append(journal(web0), pod(0, build.Held(0), build.Deleting())...)...),
				source(web0), target(web0), moverPod(1, build.FirstPassConverged()))},
		row{"19 the pod was replaced: restore handles it", given(append(set(whileMoving(api.MemberFinalPass)),
			append(journal(web0), heldPod(0, build.UID("uid-other"))...)...), source(web0), target(web0), moverPod(1, build.FirstPassConverged()))},
	)
}

// TestMoverLostInFinalPassIsReplaced: targets that the lost mover completed no longer carry the mark of their operation. So the next mover
// gets the flag --refill. Otherwise it would refuse them as foreign data, and the operation would fail.
func TestMoverLostInFinalPassIsReplaced(t *testing.T) {
	filled := build.EditMember(0, func(m *api.Member) { m.Claims[0].Files = 3 })
	refused := reporting(moverreport.FirstContainer, moverreport.MemberReport{Stage: moverreport.FirstContainer,
		Result: moverreport.ResultFailed,
		Code:   moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty}, corev1.PodFailed)
	refills := func(p plan.Plan) bool {
		return slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
			job, ok := a.Object.(*batchv1.Job)
			return ok && slices.Contains(job.Spec.Template.Spec.InitContainers[0].Args, "--refill")
		})
	}
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"the Job was deleted":                               {given(stopped(filled)), true},
		"the Job has created another pod, which refuses it": {given(stopped(filled), failedJob(1, refused)), true},
		"no mover has written to the target before":         {given(stopped()), false},
		"the mover was lost before the member stopped":      {given(copying(filled), pod(0)), false},
	} {
		p := Decide(row.in)
		if record := build.Stored(p); refills(p) != row.want || record != nil && record.Phase != api.Moving {
			t.Errorf("%s: %s", name, p)
		}
	}
	if p := Decide(given(stopped(), failedJob(1, refused))); p.Reason != api.NotProvisioned {
		t.Errorf("a target with foreign data is not retained: %s", p)
	}
}

// TestNewTargetCountsAsEmpty: the progress of a discarded target is forgotten, because the new target may hold foreign data.
func TestNewTargetCountsAsEmpty(t *testing.T) {
	filled := build.EditMember(0, func(m *api.Member) { m.Claims[0].Files = 3 })
	p := Decide(given(stopped(filled), moverPod(1, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-before", Attempt: 1}))))
	if move := build.Stored(p).Members[0].Claims[0]; move.Copies != 1 || move.Files != 0 {
		t.Errorf("%+v", move)
	}
	p = Decide(given(set(whileMoving(api.MemberFinalPass, filled)), journal(web0), heldPod(0), source(web0)))
	if stored := build.Stored(p); stored == nil || stored.Members[0].Claims[0].Files != 0 {
		t.Errorf("the deleted temporary claim is created again: %s", p)
	}
}

// TestLeaseOfPin: a pin ends if its lease is not renewed. backup renews the lease until the volumes are swapped.
func TestLeaseOfPin(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		all := append(set(whileMoving(phase, append(options, provisioned)...)), append(journal(web0), heldPod(0)...)...)
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
	earlier := build.EditMember(0, func(m *api.Member) { m.StoppedAt = operation.Moment(build.Now.Add(-time.Minute)) })
	check(
		t,
		row{
			"a short swap needs no renewal",
			given(at(api.MemberSwapping), moverPod(1, build.FinalPassSucceeded(signal), since(renewEvery-time.Second))),
		},
		row{
			"a long swap renews the lease",
			given(at(api.MemberSwapping), moverPod(1, build.FinalPassSucceeded(signal), since(renewEvery+time.Second))),
		},
		row{"the lease was renewed in the swap, and the node's clock is fast",
			given(
				at(api.MemberSwapping, earlier),
				moverPod(1, build.FinalPassSucceeded(signal), since(time.Second), renewedBefore(renewEvery+time.Second)),
			)},
		row{"an ended pin has no lease",
			given(
				at(api.MemberSwapping),
				moverPod(1, build.FinalPassSucceeded(signal), since(renewEvery+time.Second), build.InPhase(corev1.PodFailed)),
			)},
		row{"the lease of a starting member is not renewed",
			given(at(api.MemberStarting), moverPod(1, build.FinalPassSucceeded(signal), since(renewEvery+time.Second)))},
	)
}

// TestLeaseOfWaitingMover: the first lease starts with the mover's container, on the clock of its node.
func TestLeaseOfWaitingMover(t *testing.T) {
	since := func(d time.Duration) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			build.FirstPassConverged()(p)
			p.Status.InitContainerStatuses[1].State.Running.StartedAt = ago(d)
		})
	}
	check(t,
		row{"the container has just started: nothing is written to its pod",
			given(copying(), pod(0), moverPod(1, since(renewEvery-time.Second)))},
		row{"the mover has waited for a long time", given(copying(), pod(0), moverPod(1, since(renewEvery+time.Second)))},
		row{"the node's clock is fast", given(copying(), pod(0), moverPod(1, since(-time.Hour)))},
		row{"the node's clock is fast, and the lease was renewed before: the container's start does not count",
			given(copying(), pod(0), moverPod(1, since(time.Second), renewedBefore(renewEvery+time.Second)))},
	)
}

func renewedBefore(d time.Duration) build.Option {
	return build.Annotation(moverreport.LeaseAnnotation, timestamp(build.Now.Add(-d)))
}

// TestMoverThatWroteNothingNewIsReplacedInFinalPass: a cutover window was closed, so the member's first mover, which wrote three files, was
// deleted. The second one found all of them up to date. It is killed in the final pass after one target was complete, and the Job's next
// pod refuses that target, which no longer has the mark. That is no foreign data.
func TestMoverThatWroteNothingNewIsReplacedInFinalPass(t *testing.T) {
	second := build.EditMember(0, func(m *api.Member) { m.Attempt, m.Claims[0].Files = 2, 3 })
	waits := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		p.Status.InitContainerStatuses[0] = build.EndedContainer(moverreport.FirstContainer, moverreport.MemberReport{
			Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged, ForecastSeconds: 1,
			Claims: []moverreport.ClaimReport{{Name: "data", Total: 7, Skipped: 3}}})
	})
	waiting := build.Stored(Decide(given(copying(second), pod(0), moverPod(2, waits))))
	if waiting == nil || waiting.Members[0].Phase != api.MemberWaiting {
		t.Fatalf("%+v", waiting)
	}
	files := waiting.Members[0].Claims[0].Files
	later := build.EditMember(0, func(m *api.Member) { m.Attempt, m.Claims[0].Files = 2, files })
	refused := reporting(moverreport.FirstContainer, moverreport.MemberReport{Stage: moverreport.FirstContainer,
		Result: moverreport.ResultFailed, Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty}, corev1.PodFailed)
	p := Decide(given(stopped(later), failedJob(2, refused)))
	if p.Reason == api.NotProvisioned {
		t.Errorf("after %d files in the record, the operation's own copy counts as foreign data: %s", files, p)
	}
}
