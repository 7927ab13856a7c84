package backup

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// TestStoredProgressNeverFalls: the verification, a later pass and the next claim count from 0 again.
func TestStoredProgressNeverFalls(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0, logs0)))
	member := &w.Record.Members[0]
	for _, step := range []struct {
		line moverreport.Progress
		want string
	}{
		{moverreport.Progress{Phase: moverreport.PhaseScan, Claim: "data", Pass: 1, BytesTotal: 30}, "0/0 0/0"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "data", Pass: 1, BytesDone: 20, BytesTotal: 40}, "20/40 0/0"},
		{moverreport.Progress{Phase: moverreport.PhaseVerify, Claim: "data", Pass: 1, BytesTotal: 40}, "40/40 0/0"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "logs", Pass: 1, BytesDone: 3, BytesTotal: 9}, "40/40 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseWait, Pass: 1}, "40/40 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "data", Pass: 2, BytesDone: 1, BytesTotal: 41}, "40/40 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "data", Pass: 2, BytesDone: 41, BytesTotal: 41}, "41/41 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "logs", BytesDone: 10, BytesTotal: 9}, "41/41 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "logs", BytesDone: -5, BytesTotal: 9}, "41/41 3/9"},
		{moverreport.Progress{Phase: moverreport.PhaseCopy, Claim: "other", BytesDone: 5, BytesTotal: 9}, "41/41 3/9"},
	} {
		member.ProgressAt = nil
		w.Progress = map[int]moverreport.Progress{0: step.line}
		w.watch().storeProgress(member)
		a, b := member.Claims[0], member.Claims[1]
		got := fmt.Sprintf("%d/%d %d/%d", a.BytesDone, a.BytesTotal, b.BytesDone, b.BytesTotal)
		if got != step.want {
			t.Errorf("after %+v: %s, want %s", step.line, got, step.want)
		}
	}
	member.ProgressAt = &metav1.Time{Time: w.Now}
	w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseCopy, Claim: "logs", BytesDone: 9, BytesTotal: 9}}
	if w.watch().storeProgress(member); member.Claims[1].BytesDone != 3 {
		t.Error("progress was written twice within the period")
	}
}

// TestReportShowsWholeCopyNotLastPass: a user who reads only the bytes of the final pass fears that the rest is lost.
func TestReportShowsWholeCopyNotLastPass(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberFinalPass, web0, logs0)))
	member := &w.Record.Members[0]
	w.firstPasses().storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultCopied, Claims: []moverreport.ClaimReport{
		{Name: "data", Bytes: 2, Total: 40}, {Name: "logs", Bytes: -2, Total: -40}}})
	data, logs := member.Claims[0], member.Claims[1]
	if data.BytesDone != 40 || data.BytesTotal != 40 || data.BytesFinal != 2 {
		t.Errorf("%+v", data)
	}
	if logs.BytesDone != 0 || logs.BytesTotal != 0 || logs.BytesFinal != 0 {
		t.Errorf("negative numbers of a report were stored: %+v", logs)
	}
}

// TestFirstProgressIsAwaitedOnlyAfterStart: the next tick may be a minute away, but no later event may wait again.
func TestFirstProgressIsAwaitedOnlyAfterStart(t *testing.T) {
	for situation, row := range map[string]struct {
		age      time.Duration
		reported bool
		want     bool
	}{
		"the mover has just started": {time.Second, false, true},
		"it shows progress":          {time.Second, true, false},
		"it started some time ago":   {firstProgressWait, false, false},
	} {
		w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
		member := &w.Record.Members[0]
		if row.reported {
			member.ProgressAt = &metav1.Time{Time: w.Now}
		}
		pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now.Add(-row.age))}}}}}}
		if got := w.watch().awaitsFirstProgress(member, pod); got != row.want {
			t.Errorf("%s: %t, want %t", situation, got, row.want)
		}
	}
}

// TestTooSmallVolumeNeedsAnotherRequest: a retry of the same request would fail again.
func TestTooSmallVolumeNeedsAnotherRequest(t *testing.T) {
	for reason, retry := range map[moverreport.Reason]bool{moverreport.ReasonNoSpace: false, moverreport.ReasonIOError: true} {
		w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
		report := &moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: reason, Message: "claim data: it failed"}
		w.Before = w.Record
		w.fail(api.CopyFailed, "%s", w.firstPasses().copyFailure(&w.Record.Members[0], mover{first: report}))
		text := w.plan().String()
		if strings.Contains(text, "kubectl drydock retry") != retry || strings.Contains(text, "Request a larger size") == retry {
			t.Errorf("%s: %s", reason, text)
		}
	}
}

// truncatedByKubelet shortens the termination messages as the kubelet does: all containers of a pod share 12 KiB equally
// (kubernetes pkg/kubelet/status, normalizeStatus).
func truncatedByKubelet(p *corev1.Pod) {
	share := 12 << 10 / (len(p.Spec.InitContainers) + len(p.Spec.Containers) + len(p.Spec.EphemeralContainers))
	for i := range p.Status.InitContainerStatuses {
		if t := p.Status.InitContainerStatuses[i].State.Terminated; t != nil && len(t.Message) > share {
			t.Message = t.Message[:share]
		}
	}
}

// TestReportSurvivesAnInjectedContainer: a member has sixteen claims, like an object store with a claim for each disk. A webhook without a
// known opt-out, or kubectl debug, has added a container to the mover's pod. A complete report must not become unreadable because of that:
// the verified copy would be discarded, five times, and a converged mover would never count as waiting.
func TestReportSurvivesAnInjectedContainer(t *testing.T) {
	report := func(stage, result string) moverreport.MemberReport {
		r := moverreport.MemberReport{Stage: stage, Result: result, Reason: moverreport.ReasonCopied,
			Message: "the targets are verified copies. The final pass took 1.2s, the forecast was 1s"}
		for i := range 16 {
			r.Claims = append(r.Claims, moverreport.ClaimReport{Name: fmt.Sprintf("disk-%d", i), Bytes: 123456789012, Files: 1234567,
				Skipped: 1234567,
				Total:   123456789012, RecordedFiles: 1234567, RecordedBytes: 123456789012, TrustedFiles: 1234567, TrustedBytes: 123456789012,
				Verified: true})
		}
		return r
	}
	encoded := func(r moverreport.MemberReport) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{Message: string(r.Encode(moverreport.TerminationLogLimit))}
	}
	injected := build.Edit(func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected"}) })

	final := report(moverreport.FinalContainer, moverreport.ResultCopied)
	final.Signal = &signal
	done := build.Edit(func(p *corev1.Pod) {
		build.FinalPassSucceeded(signal)(p)
		p.Status.InitContainerStatuses[1].State.Terminated = encoded(final)
	})
	for name, options := range map[string][]build.Option{"alone": {done}, "with an injected container": {done, injected}} {
		p := Decide(given(stopped(), moverPod(1, append(options, build.Edit(truncatedByKubelet))...)))
		if next := build.Stored(p); next == nil || next.Members[0].Phase != api.MemberSwapping {
			t.Errorf("%s: the copy is verified, and it is discarded: %s", name, p)
		}
	}

	first := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		p.Status.InitContainerStatuses[0].State.Terminated = encoded(report(moverreport.FirstContainer, moverreport.ResultConverged))
	})
	for name, options := range map[string][]build.Option{"alone": {first}, "with an injected container": {first, injected}} {
		p := Decide(given(copying(), pod(0), moverPod(1, append(options, build.Edit(truncatedByKubelet))...)))
		if next := build.Stored(p); next == nil || next.Members[0].Phase != api.MemberWaiting {
			t.Errorf("%s: the mover waits for the stop, and the member is not handed to restore: %s", name, p)
		}
	}
}

// TestLogIsReadOncePerPeriodAlsoWithoutProgress: a verification and a later pass store nothing, but may last for hours. Each event of the
// set, its pods and claims would read the log.
func TestLogIsReadOncePerPeriodAlsoWithoutProgress(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
	member := &w.Record.Members[0]
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
		Name: moverreport.FirstContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	reads := 0
	start := w.Now
	for second := 0; second < 600; second++ { // an event each second for ten minutes
		w.Now = start.Add(time.Duration(second) * time.Second)
		if w.progressContainer(member, pod) == "" {
			continue
		}
		reads++
		w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseVerify, Claim: "data", Pass: 1, BytesDone: int64(second),
			BytesTotal: 1000}}
		w.watch().storeProgress(member)
	}
	if most := int(10*time.Minute/w.Settings.ProgressPeriod) + 1; reads > most {
		t.Errorf("%d reads of the log, want at most %d", reads, most)
	}
}

// TestReportOfAnOlderMoverKeepsProgress: during an upgrade, movers of the former version run on. Their reports have no total.
func TestReportOfAnOlderMoverKeepsProgress(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
	member := &w.Record.Members[0]
	w.firstPasses().storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultConverged,
		Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 40, Files: 3}}})
	if m := member.Claims[0]; m.BytesDone != 40 || m.BytesTotal != 40 {
		t.Errorf("first passes: %d of %d", m.BytesDone, m.BytesTotal)
	}
	w.firstPasses().storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultCopied,
		Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 2, Files: 3, Verified: true}}})
	if m := member.Claims[0]; m.BytesDone != 40 || m.BytesTotal != 40 || m.BytesFinal != 2 {
		t.Errorf("final pass: %d of %d, final %d", m.BytesDone, m.BytesTotal, m.BytesFinal)
	}
}

// TestForgedProgressIsBounded: a tenant who may exec into the mover writes into its log. The sum over claims must not overflow.
func TestForgedProgressIsBounded(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0, logs0)))
	member := &w.Record.Members[0]
	for _, claim := range []string{"data", "logs"} {
		member.ProgressAt = nil
		w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseCopy, Claim: claim, BytesDone: math.MaxInt64,
			BytesTotal: math.MaxInt64}}
		w.watch().storeProgress(member)
	}
	if sum := member.Claims[0].BytesDone + member.Claims[1].BytesDone; sum < 0 {
		t.Errorf("the sum is %d", sum)
	}
}
