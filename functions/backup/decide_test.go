package backup

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

const logs0 = "logs-web-0"

// workOn returns the work on a record and the objects.
func workOn(record *api.Resize, groups ...objects) *work {
	return &work{Input: given(append([]objects{set(record)}, groups...)...), Work: moving.Begin(record)}
}

// halfMoved returns the record of a member with two claims. The first claim is already on its new volume.
func halfMoved(phase api.MemberPhase) *api.Resize {
	return build.Operation(api.Moving, build.Members(phase, web0, logs0),
		build.EditMember(0, func(m *api.Member) { m.Claims[0].Moved = true }))
}

// TestMovedClaimIsNotCopiedAgain: if a stop is lost in the middle of a swap, only the other claims of the member are copied again.
func TestMovedClaimIsNotCopiedAgain(t *testing.T) {
	w := workOn(halfMoved(api.MemberCopying), source(web0), source(logs0))
	created := w.createTargets(&w.Record.Members[0])
	if len(created) != 1 || created[0].Name != api.TargetName(build.ID, logs0, 0) {
		t.Errorf("created temporary claims %v, want one for claim %s", created, logs0)
	}
	w = workOn(halfMoved(api.MemberCopying), unlinked(web0), unlinked(logs0))
	for _, a := range w.retainSources(&w.Record.Members[0]) {
		if a.Name == web0 || a.Name == old0 {
			t.Errorf("the moved claim is retained as a source: %s", a)
		}
	}
	w = workOn(halfMoved(api.MemberFinalPass), source(logs0), target(logs0))
	job := build.Job(0, 1)
	w.completeFinalPass(&w.Record.Members[0], mover{job: job, final: &moverreport.MemberReport{Result: moverreport.ResultCopied}})
	if member := w.Record.Members[0]; w.failMessage != "" || member.Phase != api.MemberSwapping ||
		member.Claims[0].Verified {
		t.Errorf("verified copy of claim %s: failure %q, %+v", logs0, w.failMessage, member)
	}
}

// TestReportIsStoredWithItsClaims: a report about one claim is not stored with another claim, and a missing report changes nothing.
func TestReportIsStoredWithItsClaims(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0, logs0), build.EditMember(0, func(m *api.Member) {
		m.Forecast, m.Claims[1].BytesTrusted = 7, 5
	})))
	member := &w.Record.Members[0]
	w.firstPasses().storeReport(member, nil)
	w.firstPasses().storeReport(member, &moverreport.MemberReport{
		Claims: []moverreport.ClaimReport{{Name: "logs", Bytes: 1, Total: 3, Files: 1}}})
	data, logs := member.Claims[0], member.Claims[1]
	if member.Forecast != 7 || data.BytesDone != 0 || logs.BytesDone != 3 || logs.BytesTrusted != 5 {
		t.Errorf("member after a report about claim %s: %+v", logs0, member)
	}
	w.firstPasses().storeReport(member, &moverreport.MemberReport{
		ForecastSeconds: 2, Claims: []moverreport.ClaimReport{{Name: "logs", TrustedBytes: 9}}})
	if member.Forecast != 2 || member.Claims[1].BytesTrusted != 9 {
		t.Errorf("the new forecast and the trusted bytes are not stored: %+v", member)
	}
}

// TestLinkOfReturningVolume: the link names the operation that left the volume, and keeps that name when it is made again.
func TestLinkOfReturningVolume(t *testing.T) {
	link := func(operation string, role api.Role) api.Link {
		return api.Link{Operation: operation, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: web0}
	}
	returning := link(build.ID, api.RoleReturning)
	returning.Before = "ba9876543210"
	for name, row := range map[string]struct {
		option build.Option
		want   string
	}{
		"left by an earlier operation": {build.LinkOf(link("ba9876543210", api.RoleOldVolume)), "ba9876543210"},
		"already returning":            {build.LinkOf(returning), "ba9876543210"},
		"left by this operation":       {build.LinkOf(link(build.ID, api.RoleOldVolume)), ""},
		"without a link":               {build.Released(), ""},
	} {
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, web0), build.RollbackOf("ba9876543210"), provisioned)
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.BoundTo("pv-new-data-web-0")), build.Released(), row.option)
		w := workOn(record, objects{v})
		if got := w.returningLink(record.Moves()[0]); got.Before != row.want || got.Role != api.RoleReturning || got.Operation != build.ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMissingVolumesAreNotRetained: revertReason ends an operation with a missing volume or claim.
func TestMissingVolumesAreNotRetained(t *testing.T) {
	for name, existing := range map[string]objects{"no volume": unlinked(web0)[:1], "no claim": unlinked(web0)[1:]} {
		w := workOn(whileMoving(api.MemberCopying), existing)
		if actions := w.retainSources(&w.Record.Members[0]); len(actions) > 0 {
			t.Errorf("%s: actions %v", name, actions)
		}
	}
}

// TestGuards: each row depends on a guard that no common situation needs.
func TestGuards(t *testing.T) {
	damaged := objects{build.With(journal(web0)[0].(*appsv1.ControllerRevision),
		build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))}
	back := build.Operation(api.Moving, build.Members(api.MemberWaiting, web0), build.RollbackOf("ba9876543210"), provisioned)
	kept := build.VolumeOf(build.Claim(web0, "128Mi", build.BoundTo("pv-new-data-web-0"), build.UID("uid-before")), build.Released(),
		build.Retained(api.RoleReturning, web0))
	root := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	refuses := failedJob(1, reporting(moverreport.FirstContainer, moverreport.MemberReport{Stage: moverreport.FirstContainer,
		Result: moverreport.ResultFailed, Reason: moverreport.ReasonTargetNotEmpty, Message: "data: the target holds files"}, corev1.PodFailed))
	check(t,
		row{"the journal is unreadable", given(set(whileMoving(api.MemberCopying)), damaged, pod(0), source(web0))},
		row{"a rollback waits at the gate: nothing is copied",
			given(set(back), objects{build.Journal(back)}, pod(0), source(web0), objects{kept})},
		row{"the pod may run as root, but the namespace does not allow a root mover",
			given(set(whileMoving(api.MemberCopying, provisioned), root), journal(web0), pod(0), source(web0), target(web0))},
		row{"a mover refuses a target, but the journal does not match the record: nothing is retained",
			given(set(whileMoving(api.MemberCopying, provisioned, build.EditMember(0, func(m *api.Member) { m.Claims[0].OldVolume = "pv-x" }))),
				journal(web0), pod(0), source(web0), target(web0), refuses)},
	)
}

// TestStallGuards does for stalls what TestGuards does for the rest of backup.
func TestStallGuards(t *testing.T) {
	endedPod := func(end time.Duration) objects {
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
		all := moverPod(1, build.InPhase(corev1.PodPending),
			build.Edit(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{condition} }))
		build.Age(time.Minute)(all[0])
		build.Age(time.Minute)(all[1])
		return all
	}
	check(t,
		row{"the pod has just ended, and a new one is expected: an older warning does not count",
			with(given(copying(), pod(0), endedPod(10*time.Second)), warned)},
		row{"the pod has ended, and no new one appears",
			given(copying(build.EditMember(0, func(m *api.Member) { m.StalledSince = operation.Moment(build.Now.Add(-61 * time.Second)) })),
				pod(0), endedPod(10*time.Minute))},
		row{"the pod was deleted, and the mover made progress after the warning", with(given(copying(progressed), pod(0), objects{job}), warned)},
		row{"a condition says why the pod does not start", given(copying(), pod(0), pending(corev1.PodCondition{Type: corev1.PodScheduled,
			Status: corev1.ConditionFalse, Reason: "Gated", Message: "the pod has a gate"}))},
		row{"a true condition is no explanation", given(copying(), pod(0), pending(corev1.PodCondition{Type: corev1.PodScheduled,
			Status: corev1.ConditionTrue, Reason: "Placed", Message: "it has a node"}))},
		row{"the member has no Job yet", given(copying(), pod(0))},
	)
}

func TestMoverThatDoesNotRunHasNoStall(t *testing.T) {
	w := workOn(whileMoving(api.MemberCopying))
	movers := map[string]mover{"no mover": {}, "an ended mover": {job: build.Job(0, 1, build.Complete(), build.Age(time.Hour))}}
	for name, m := range movers {
		if s := w.watch().stallOf(&w.Record.Members[0], m); s != nil {
			t.Errorf("%s has a stall: %s", name, s.cause())
		}
	}
}

// TestDecisionTimeGrowsLinearlyWithMembers: decisions are made while members are stopped. In a set with hundreds of members, the links of
// all claims, Jobs and pods must not be read again for each member.
func TestDecisionTimeGrowsLinearlyWithMembers(t *testing.T) {
	allocations := func(members int) float64 {
		var claims []string
		all := []metav1.Object{build.Node()}
		for i := range members {
			claim, job := build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi"), build.Job(i, 1)
			target := build.Target(claim.Name, "128Mi")
			claims = append(claims, claim.Name)
			all = append(all, claim, target, build.VolumeOf(claim), build.VolumeOf(target), build.PodOf("web", i, "data"), job, build.Mover(job))
		}
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, claims...))
		all = append(all, build.Set("web", build.Replicas(int32(members)), build.Template("data", "64Mi", "fixed"), build.Status(record)),
			build.Journal(record))
		in := Input{Input: moving.Input{Observed: build.World(all...), Settings: build.Settings()}}
		return testing.AllocsPerRun(1, func() { Decide(in) })
	}
	// Ten times the members cost ten times as much. If each member read the links of all, it would be a hundred times.
	if few, many := allocations(30), allocations(300); many > 15*few {
		t.Errorf("%.0f allocations for 30 members, %.0f for 300 members", few, many)
	}
}
