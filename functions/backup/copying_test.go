package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestFirstPasses is the story of a member up to the gate.
func TestFirstPasses(t *testing.T) {
	began := set(moving0(api.MemberPending, build.Genuine))
	genuine := func() objects {
		record := moving0(api.MemberPending, build.Genuine)
		return objects{build.Journal(record)}
	}
	converged := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged}
	lease := build.Annotation(moverreport.LeaseAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339))
	old := build.Annotation(moverreport.LeaseAnnotation, build.Now.Add(-time.Minute).Format(time.RFC3339))
	other := build.UID("uid-other")
	waiting := func(options ...func(*api.Resize)) objects {
		return append(set(moving0(api.MemberWaiting, append([]func(*api.Resize){provisioned}, options...)...)),
			append(journal(web0), append(source(web0), target(web0)...)...)...)
	}
	approve := func(operation string) func(*Input) {
		return func(in *Input) {
			in.Set = build.With(in.Set, build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
				build.Annotation(api.ApproveAnnotation, operation))
		}
	}
	check(t,
		row{"01 the journal is written before anything is touched", given(began, pod(0), bare(web0))},
		row{"02 the sources are retained", given(began, genuine(), pod(0), bare(web0))},
		row{"03 the temporary claim is created", given(set(moving0(api.MemberCopying)), journal(web0), pod(0), source(web0))},
		row{"04 the mover is made beside the pod", given(copying(), pod(0))},
		row{"05 the volume is provisioned when the mover is scheduled",
			given(set(moving0(api.MemberCopying)), journal(web0), pod(0), source(web0), pending(web0))},
		row{"06 it makes its first passes", given(copying(), pod(0), moverPod(1))},
		row{"07 the pod does not run yet", given(copying(), pod(0,
			build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })))},
		row{"08 the pod is ending", given(copying(), pod(0, build.Deleting()))},
		row{"09 there is no pod yet", given(copying())},
		row{"10 the pod was started again, perhaps elsewhere: the mover goes", given(copying(), pod(0, other), moverPod(1))},
		row{"10 the mover of a stop that was lost waits still: it goes before another one is made",
			given(copying(build.EditMember(0, func(m *api.Member) { m.Attempt, m.Pod = 2, "" })), pod(0), moverPod(1, build.Waits()))},
		row{"11 the first passes have converged, but the mover does not wait yet",
			given(copying(), pod(0), moverPod(1, says(moverreport.FirstContainer, converged, corev1.PodPending)))},
		row{"12 the mover waits: restore is told, and its lease is renewed", given(copying(), pod(0), moverPod(1, build.Waits()))},
		row{"13 at the gate its lease is renewed", given(waiting(), pod(0), moverPod(1, build.Waits(), old))},
		row{"14 it was renewed a second ago", given(waiting(), pod(0), moverPod(1, build.Waits(), lease))},
		row{"15 at the gate the pod was started again: a new mover has to be made",
			given(waiting(), pod(0, other), moverPod(1, build.Waits()))},
		row{"16 at the gate the mover is gone", given(waiting(), pod(0))},
		row{"17 at the gate the mover has lost its lease", given(waiting(), pod(0), failedJob(1, says(moverreport.FinalContainer,
			moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultFailed,
				Code: moverreport.CodeLeaseLost}, corev1.PodFailed)))},
		row{"18 at the gate its pod was replaced: that one copies first", given(waiting(), pod(0), moverPod(1))},
		row{"19 people keep the cutover shut: the mover ends", but(given(waiting(), pod(0), moverPod(1, build.Waits())), approve("another"))},
		row{"20 people keep the cutover shut, and no mover waits", but(given(waiting(), pod(0)), approve("another"))},
		row{"21 the cutover is approved: another mover brings the copy up to date", but(given(waiting(), pod(0)), approve(build.ID))},
		row{"22 people keep the cutover shut, and the mover was told by others: its volume is finished",
			but(given(waiting(), pod(0), moverPod(1, build.Copied(moverreport.Signal{Hold: "uid-before", Attempt: 1}))), approve("another"))},
		row{"22 at the gate the mover has made a final pass, told by others: the volume is finished, and another one is made",
			given(waiting(), pod(0), moverPod(1, build.Copied(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
		row{"23 the mover has made a final pass right after the first ones, told by others",
			given(copying(), pod(0), moverPod(1, build.Copied(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
	)
}

// TestFirstPassesThatFail: the operation is given up, or another mover is made.
func TestFirstPassesThatFail(t *testing.T) {
	first := func(report moverreport.MemberReport) build.Option {
		report.Stage = moverreport.FirstContainer
		return says(moverreport.FirstContainer, report, corev1.PodFailed)
	}
	killed := build.Edit(func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}}
	})
	check(t,
		row{"they do not converge", given(copying(), pod(0), failedJob(1,
			first(moverreport.MemberReport{Result: moverreport.ResultNotConverged, ForecastSeconds: 300, MaxStopSeconds: 60})))},
		row{"a read error", given(copying(), pod(0), failedJob(1,
			first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: "IOError", Message: "data: input/output error"})))},
		row{"only root could copy it", given(copying(), pod(0),
			failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: moverreport.ReasonNotFaithful,
				Message: "data: owner"})))},
		row{"data of others is on the target: its volume is kept first",
			given(copying(), pod(0), failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed,
				Reason: moverreport.ReasonTargetNotEmpty, Message: "data: files"})))},
		row{"data of others is on the target, and its volume is kept",
			given(copying()[:4], pod(0), objects{build.Target(web0, "128Mi"),
				build.VolumeOf(build.Target(web0, "128Mi"), build.Retained(api.RoleForeign, web0))},
				failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: moverreport.ReasonTargetNotEmpty,
					Message: "data: files"})))},
		row{"it was killed for its use of memory", given(copying(), pod(0), failedJob(1, killed))},
		row{"its final pass was killed for its use of memory", given(copying(), pod(0),
			failedJob(1, build.Waits(), build.InPhase(corev1.PodFailed), build.Edit(func(p *corev1.Pod) {
				p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled",
					ExitCode: 137}}
			})))},
		row{"it has failed without a word", given(copying(), pod(0), failedJob(1))},
		row{"it has lost its lease: another one is made", given(copying(), pod(0),
			failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeLeaseLost})))},
		row{"its Job is being deleted: that is waited for", given(copying(), pod(0), objects{build.Job(0, 1, build.Deleting())})},
		row{"the options of movers cannot be read", but(given(copying(), pod(0)), func(in *Input) { in.OptionsErr = errOptions{} })},
	)
}

type errOptions struct{}

func (errOptions) Error() string { return "annotation drydock.dev/mover: field imagee is unknown" }

// TestMembersWithoutMover: they are copied when they have stopped.
func TestMembersWithoutMover(t *testing.T) {
	alone := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	zero := append(set(moving0(api.MemberCopying), build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	back := build.Operation(api.Moving, build.Members(api.MemberCopying, web0), build.Rollback("ba9876543210"),
		build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = "pv-new-data-web-0" }))
	kept := func(options ...build.Option) objects {
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.On("pv-new-data-web-0"), build.UID("uid-before")), build.Released(),
			build.Retained(api.RoleRetired, web0),
			build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleRetired, Namespace: build.Namespace,
				Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: web0}))
		return objects{build.With(v, options...)}
	}
	own := objects{build.Journal(back)}
	check(t,
		row{"no pod is wanted: restore takes its name", given(zero)},
		row{"a claim that only one pod may use", given(set(moving0(api.MemberCopying)), journal(web0), pod(0), source(web0, alone),
			target(web0))},
		row{"a rollback: the old volume is held before its window ends", given(set(back), own, pod(0), source(web0), kept())},
		row{"a rollback: nothing is copied", given(set(back), own, pod(0), source(web0), kept(build.Link(api.RoleReturning, web0)))},
		row{"a rollback whose old volume is gone", given(set(back), own, pod(0), source(web0))},
		row{"a rollback whose old volume another claim has", given(set(back), own, pod(0), source(web0),
			kept(build.TakenBy("debug", "uid-debug")))},
		row{"a rollback to a volume that was left by another claim",
			given(set(back), own, pod(0), source(web0), kept(build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleRetired,
				Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: "data-payroll-0"})))},
	)
}

// TestMemberThatWasScaledUpWhileItWaitedIsCopiedBesideItsPod: it had no pod when it was handed to restore, and needed no mover.
func TestMemberThatWasScaledUpWhileItWaitedIsCopiedBesideItsPod(t *testing.T) {
	phase := func(node string, more ...objects) api.MemberPhase {
		record := moving0(api.MemberWaiting, build.EditMember(0, func(m *api.Member) { m.Pod, m.Node = "", node }))
		in := given(append([]objects{set(record), journal(web0), source(web0), target(web0)}, more...)...)
		if stored := build.Stored(Decide(in)); stored != nil {
			return stored.Members[0].Phase
		}
		return api.MemberWaiting
	}
	if is := phase("", pod(0)); is != api.MemberCopying {
		t.Errorf("its pod runs, and it is %s", is)
	}
	if is := phase(""); is != api.MemberWaiting {
		t.Errorf("it has no pod, and is %s", is)
	}
	if is := phase(build.NodeName, pod(0)); is != api.MemberWaiting {
		t.Errorf("no node had room for a mover beside its pod, and it is %s", is)
	}
}

// TestTurns: one member after the other in a rolling resize, else as many movers as are allowed.
func TestTurns(t *testing.T) {
	two := func(a, b api.MemberPhase, options ...func(*api.Resize)) objects {
		record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(a, web0), build.Members(b, web1)}, options...)...)
		all := append(set(record, build.Replicas(2)), append(journal(web0, web1), append(pod(0), pod(1)...)...)...)
		return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
	}
	single := func(in *Input) { in.Settings.Parallelism = 1 }
	waits1 := objects{build.Job(1, 1), build.Mover(build.Job(1, 1), onNode, build.Waits())}
	primary1 := func(in *Input) {
		in.Set = build.With(in.Set, build.Annotation(api.PrimaryAnnotation, "role=primary"))
		build.With(in.MemberPod(1), build.Label("role", "primary"))
	}
	check(t,
		row{"rolling: the highest ordinal comes first", given(two(api.MemberPending, api.MemberPending, build.Rolling))},
		row{"rolling: one is copied, the other's turn has not come", given(two(api.MemberPending, api.MemberCopying, build.Rolling))},
		row{"rolling: one is moved, the other begins", given(two(api.MemberPending, api.MemberMoved, build.Rolling))},
		row{"rolling: one waits and has become the primary, the other goes first",
			but(given(two(api.MemberPending, api.MemberWaiting, build.Rolling), waits1), primary1)},
		row{"rolling: the primary waits, and is the last", but(given(two(api.MemberMoved, api.MemberWaiting, build.Rolling), waits1), primary1)},
		row{"whole: all begin", given(two(api.MemberPending, api.MemberPending))},
		row{"whole: one mover at a time", but(given(two(api.MemberCopying, api.MemberCopying)), single)},
		row{"whole: the first one's mover runs, the other waits for its place",
			but(given(two(api.MemberCopying, api.MemberCopying), moverPod(1)), single)},
		row{"whole: the first one's mover waits at the gate, so there is a place",
			but(given(two(api.MemberCopying, api.MemberCopying), moverPod(1, build.Waits())), single)},
	)
}

// TestMemberThatLeavesTheGateForgetsTheAnswerOfTheMemberCheck: it counts for two minutes, and the gate may open again before.
func TestMemberThatLeavesTheGateForgetsTheAnswerOfTheMemberCheck(t *testing.T) {
	checked := build.EditMember(0, func(m *api.Member) { m.Checked = operation.Moment(build.Now.Add(-time.Second)) })
	at := append(set(moving0(api.MemberWaiting, provisioned, checked)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at, pod(0, build.UID("uid-other")), moverPod(1, build.Waits())))
	if record := build.Stored(p); record == nil || record.Members[0].Phase != api.MemberCopying || record.Members[0].Checked != nil {
		t.Errorf("it is copied again, and %+v: %s", record, p)
	}
}
