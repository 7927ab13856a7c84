package backup

import (
	"fmt"
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
	member := &w.record.Members[0]
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
		w.storeProgress(member)
		a, b := member.Claims[0], member.Claims[1]
		got := fmt.Sprintf("%d/%d %d/%d", a.BytesDone, a.BytesTotal, b.BytesDone, b.BytesTotal)
		if got != step.want {
			t.Errorf("after %+v: %s, want %s", step.line, got, step.want)
		}
	}
	member.ProgressAt = &metav1.Time{Time: w.Now}
	w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseCopy, Claim: "logs", BytesDone: 9, BytesTotal: 9}}
	if w.storeProgress(member); member.Claims[1].BytesDone != 3 {
		t.Error("progress was written twice within the period")
	}
}

// TestReportShowsWholeCopyNotLastPass: a user who reads only the bytes of the final pass fears that the rest is lost.
func TestReportShowsWholeCopyNotLastPass(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberFinalPass, web0, logs0)))
	member := &w.record.Members[0]
	w.storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultCopied, Claims: []moverreport.ClaimReport{
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
		member := &w.record.Members[0]
		if row.reported {
			member.ProgressAt = &metav1.Time{Time: w.Now}
		}
		pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now.Add(-row.age))}}}}}}
		if got := w.awaitsFirstProgress(member, pod); got != row.want {
			t.Errorf("%s: %t, want %t", situation, got, row.want)
		}
	}
}

// TestTooSmallVolumeNeedsAnotherRequest: a retry of the same request would fail again.
func TestTooSmallVolumeNeedsAnotherRequest(t *testing.T) {
	for reason, retry := range map[moverreport.Reason]bool{moverreport.ReasonNoSpace: false, moverreport.ReasonIOError: true} {
		w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
		report := &moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: reason, Message: "claim data: it failed"}
		w.before = w.record
		w.fail(api.CopyFailed, "%s", w.copyFailure(&w.record.Members[0], mover{first: report}))
		text := w.plan().String()
		if strings.Contains(text, "kubectl drydock retry") != retry || strings.Contains(text, "Request a larger size") == retry {
			t.Errorf("%s: %s", reason, text)
		}
	}
}
