package backup

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

const logs0 = "logs-web-0"

// workOn is the work on a record, beside the objects.
func workOn(record *api.Resize, groups ...objects) *work {
	return &work{Input: given(append([]objects{set(record)}, groups...)...), before: record, record: record.Clone()}
}

// half is a member of two claims. The first is on its new volume already.
func half(phase api.MemberPhase) *api.Resize {
	return build.Operation(api.Moving, build.Members(phase, web0, logs0), build.EditMember(0, func(m *api.Member) { m.Claims[0].Moved = true }))
}

// TestClaimThatWasMovedIsNotCopiedAgain: after a stop that was lost in the middle of a swap, only the other claims of the member are.
func TestClaimThatWasMovedIsNotCopiedAgain(t *testing.T) {
	w := workOn(half(api.MemberCopying), source(web0), source(logs0))
	made := w.makeTargets(&w.record.Members[0])
	if len(made) != 1 || made[0].Name != api.TargetName(build.ID, logs0, 0) {
		t.Errorf("temporary claims are made: %v, want one for claim %s", made, logs0)
	}
	w = workOn(half(api.MemberCopying), bare(web0), bare(logs0))
	for _, a := range w.holdSources(&w.record.Members[0]) {
		if a.Name == web0 || a.Name == old0 {
			t.Errorf("the claim that was moved is held as a source: %s", a)
		}
	}
	w = workOn(half(api.MemberFinalPass), source(logs0), target(logs0))
	job := build.Job(0, 1)
	w.verified(&w.record.Members[0], mover{job: job, final: &moverreport.MemberReport{Result: moverreport.ResultCopied}})
	if member := w.record.Members[0]; w.failed != "" || member.Phase != api.MemberSwapping || member.Claims[0].Digest == verifiedWithoutDigest {
		t.Errorf("the copy of claim %s is verified, and it fails: %q, %+v", logs0, w.failed, member)
	}
}

// TestReportIsStoredWithItsClaims: a mover's report about one claim is not stored with another claim, and a missing report changes nothing.
func TestReportIsStoredWithItsClaims(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0, logs0), build.EditMember(0, func(m *api.Member) {
		m.Forecast, m.Claims[1].BytesTrusted = 7, 5
	})))
	member := &w.record.Members[0]
	w.take(member, nil)
	w.take(member, &moverreport.MemberReport{Claims: []moverreport.ClaimReport{{Name: "logs", Bytes: 3, Files: 1}}})
	if data, logs := member.Claims[0], member.Claims[1]; member.Forecast != 7 || data.BytesDone != 0 || logs.BytesDone != 3 || logs.BytesTrusted != 5 {
		t.Errorf("a report of claim %s leaves %+v", logs0, member)
	}
	w.take(member, &moverreport.MemberReport{ForecastSeconds: 2, Claims: []moverreport.ClaimReport{{Name: "logs", TrustedBytes: 9}}})
	if member.Forecast != 2 || member.Claims[1].BytesTrusted != 9 {
		t.Errorf("a new forecast and the bytes that were trusted are not stored: %+v", member)
	}
}

// TestLinkOfVolumeThatComesBack: it names the volume's former claim, and keeps that when it is read again.
func TestLinkOfVolumeThatComesBack(t *testing.T) {
	link := func(operation string, role api.Role) api.Link {
		return api.Link{Operation: operation, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: web0}
	}
	returning := link(build.ID, api.RoleReturning)
	returning.Before = "ba9876543210"
	for name, row := range map[string]struct {
		option build.Option
		want   string
	}{
		"it was left by the operation before": {build.LinkOf(link("ba9876543210", api.RoleRetired)), "ba9876543210"},
		"it comes back already":               {build.LinkOf(returning), "ba9876543210"},
		"it was left by this operation":       {build.LinkOf(link(build.ID, api.RoleRetired)), ""},
		"it has no link":                      {build.Released(), ""},
	} {
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, web0), build.Rollback("ba9876543210"), provisioned)
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.On("pv-new-data-web-0")), build.Released(), row.option)
		w := workOn(record, objects{v})
		if got := w.returningLink(record.Moves()[0]); got.Before != row.want || got.Role != api.RoleReturning || got.Operation != build.ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestVolumesThatAreGoneAreNotHeld: the operation is given up then, and says so.
func TestVolumesThatAreGoneAreNotHeld(t *testing.T) {
	for name, there := range map[string]objects{"the volume": bare(web0)[:1], "the claim": bare(web0)[1:]} {
		w := workOn(moving0(api.MemberCopying), there)
		if actions := w.holdSources(&w.record.Members[0]); len(actions) > 0 {
			t.Errorf("%s alone is there, and is held: %v", name, actions)
		}
	}
}

// TestBackupInRareSituations: each row needs one guard that no common situation does.
func TestBackupInRareSituations(t *testing.T) {
	damaged := objects{build.With(journal(web0)[0].(*appsv1.ControllerRevision), build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))}
	back := build.Operation(api.Moving, build.Members(api.MemberWaiting, web0), build.Rollback("ba9876543210"), provisioned)
	kept := build.VolumeOf(build.Claim(web0, "128Mi", build.On("pv-new-data-web-0"), build.UID("uid-before")), build.Released(),
		build.Retained(api.RoleReturning, web0))
	root := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	refuses := failedJob(1, says(moverreport.FirstContainer, moverreport.MemberReport{Stage: moverreport.FirstContainer,
		Result: moverreport.ResultFailed, Reason: moverreport.ReasonTargetNotEmpty, Message: "data: the target holds files"}, corev1.PodFailed))
	check(t,
		row{"the journal cannot be read", given(set(moving0(api.MemberCopying)), damaged, pod(0), source(web0))},
		row{"a rollback waits at the gate: nothing is copied", given(set(back), objects{build.Journal(back)}, pod(0), source(web0), objects{kept})},
		row{"the pod may run as root, and the namespace allows no mover that does", given(set(moving0(api.MemberCopying, provisioned), root),
			journal(web0), pod(0), source(web0), target(web0))},
		row{"a mover finds data of others on the target of an operation that its journal does not name: nothing is kept",
			given(set(moving0(api.MemberCopying, provisioned, build.EditMember(0, func(m *api.Member) { m.Claims[0].OldVolume = "pv-x" }))),
				journal(web0), pod(0), source(web0), target(web0), refuses)},
	)
}

// TestStallsInRareSituations: as TestBackupInRareSituations.
func TestStallsInRareSituations(t *testing.T) {
	ended := func(end time.Duration) objects {
		all := moverPod(1, build.InPhase(corev1.PodFailed), build.Edit(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, FinishedAt: ago(end)}}}}
		}))
		build.Age(time.Hour)(all[0])
		build.Age(time.Hour)(all[1])
		return all
	}
	progressed := build.EditMember(0, func(m *api.Member) { m.ProgressAt = operation.Moment(build.Now.Add(-10 * time.Second)) })
	job := build.With(build.Job(0, 1), build.Age(time.Hour))
	warned := func(in *Input) {
		in.Warnings = map[string]Warning{job.Name: {Reason: failedCreate, Message: "of an hour ago", At: build.Now.Add(-30 * time.Second)}}
	}
	pending := func(condition corev1.PodCondition) objects {
		all := moverPod(1, build.InPhase(corev1.PodPending), build.Edit(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{condition} }))
		build.Age(time.Minute)(all[0])
		build.Age(time.Minute)(all[1])
		return all
	}
	check(t,
		row{"its pod has just ended, and another one comes: an older warning does not count",
			but(given(copying(), pod(0), ended(10*time.Second)), warned)},
		row{"its pod has ended, and no other one comes",
			given(copying(build.EditMember(0, func(m *api.Member) { m.StalledSince = operation.Moment(build.Now.Add(-61 * time.Second)) })),
				pod(0), ended(10*time.Minute))},
		row{"its pod was deleted, and it has made progress since the warning", but(given(copying(progressed), pod(0), objects{job}), warned)},
		row{"a condition says why it does not start", given(copying(), pod(0), pending(corev1.PodCondition{Type: corev1.PodScheduled,
			Status: corev1.ConditionFalse, Reason: "Gated", Message: "the pod has a gate"}))},
		row{"a condition that is true says nothing", given(copying(), pod(0), pending(corev1.PodCondition{Type: corev1.PodScheduled,
			Status: corev1.ConditionTrue, Reason: "Placed", Message: "it has a node"}))},
		row{"the member has no Job yet", given(copying(), pod(0))},
	)
}

// TestMoverThatDoesNotRunHasNoStall: there is none, or it has ended.
func TestMoverThatDoesNotRunHasNoStall(t *testing.T) {
	w := workOn(moving0(api.MemberCopying))
	for name, m := range map[string]mover{"there is none": {}, "it has ended": {job: build.Job(0, 1, build.Complete(), build.Age(time.Hour))}} {
		if s := w.stallOf(&w.record.Members[0], m); s != nil {
			t.Errorf("%s, and something keeps it: %s", name, s.cause())
		}
	}
}
