package backup

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestFirstPasses follows a member from the start of the operation to the gate.
func TestFirstPasses(t *testing.T) {
	pendingSet := set(whileMoving(api.MemberPending, build.DerivedID))
	genuine := func() objects {
		record := whileMoving(api.MemberPending, build.DerivedID)
		return objects{build.Journal(record)}
	}
	converged := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged}
	lease := build.Annotation(moverreport.LeaseAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339))
	old := build.Annotation(moverreport.LeaseAnnotation, build.Now.Add(-time.Minute).Format(time.RFC3339))
	other := build.UID("uid-other")
	waiting := func(options ...func(*api.Resize)) objects {
		return append(set(whileMoving(api.MemberWaiting, append([]func(*api.Resize){provisioned}, options...)...)),
			append(journal(web0), append(source(web0), target(web0)...)...)...)
	}
	withoutTurn := func(r *api.Resize) { r.TurnReturned = true }
	approve := func(operation string) func(*Input) {
		return func(in *Input) {
			in.Set = build.With(in.Set, build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
				build.Annotation(api.ApproveAnnotation, operation))
		}
	}
	check(
		t,
		row{"01 the journal is written before any other write", given(pendingSet, pod(0), unlinked(web0))},
		row{"02 the sources are retained", given(pendingSet, genuine(), pod(0), unlinked(web0))},
		row{"03 the temporary claim is created", given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0))},
		row{"04 the mover is created beside the pod", given(copying(), pod(0))},
		row{"05 the volume is provisioned when the mover is scheduled",
			given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0), pending(web0))},
		row{"06 the mover makes its first passes", given(copying(), pod(0), moverPod(1))},
		row{"07 the pod is not running yet", given(copying(), pod(0,
			build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })))},
		row{"08 the pod is terminating", given(copying(), pod(0, build.Deleting()))},
		row{"09 there is no pod yet", given(copying())},
		row{"10 the pod was replaced and may be on another node: the mover is deleted", given(copying(), pod(0, other), moverPod(1))},
		row{"10 the mover of a lost stop still waits: it is deleted before a new one is created",
			given(copying(build.EditMember(0, func(m *api.Member) { m.Attempt, m.Pod = 2, "" })), pod(0), moverPod(1, build.FirstPassConverged()))},
		row{"11 the first passes have converged, but the mover does not wait yet",
			given(copying(), pod(0), moverPod(1, reporting(moverreport.FirstContainer, converged, corev1.PodPending)))},
		row{"12 the mover waits: the member is handed to restore, and the lease is renewed",
			given(copying(), pod(0), moverPod(1, build.FirstPassConverged()))},
		row{"13 at the gate, the mover's lease is renewed", given(waiting(), pod(0), moverPod(1, build.FirstPassConverged(), old))},
		row{"14 at the gate, the lease was renewed a second ago", given(waiting(), pod(0), moverPod(1, build.FirstPassConverged(), lease))},
		row{"15 at the gate, the pod was replaced: the mover is replaced",
			given(waiting(), pod(0, other), moverPod(1, build.FirstPassConverged()))},
		row{"16 at the gate, the mover is gone", given(waiting(), pod(0))},
		row{"17 at the gate, the mover has lost its lease", given(waiting(), pod(0), failedJob(1, reporting(moverreport.FinalContainer,
			moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultFailed,
				Code: moverreport.CodeLeaseLost}, corev1.PodFailed)))},
		row{"18 at the gate, the mover's pod was replaced: the new pod makes first passes", given(waiting(), pod(0), moverPod(1))},
		row{
			"19 the cutover is shut: the mover is deleted",
			with(given(waiting(), pod(0), moverPod(1, build.FirstPassConverged())), approve("another")),
		},
		row{"20 the cutover is shut, and no mover waits", with(given(waiting(), pod(0)), approve("another"))},
		row{"21 the cutover is approved: a new mover brings the copy up to date", with(given(waiting(), pod(0)), approve(build.ID))},
		row{"21 the cutover is approved, and the resize has no turn: it waits",
			with(given(waiting(withoutTurn), pod(0), moverPod(1, build.FirstPassConverged())), approve(build.ID))},
		row{"21 a resize without a turn copies nothing", given(copying(withoutTurn), pod(0))},
		row{"22 the cutover is shut, and another process signalled the mover: its volume is not used again",
			with(
				given(waiting(), pod(0), moverPod(1, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-before", Attempt: 1}))),
				approve("another"),
			)},
		row{"22 at the gate, another process made the mover finish: the mover is replaced, with a new volume",
			given(waiting(), pod(0), moverPod(1, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
		row{"23 another process made the mover finish during its first passes",
			given(copying(), pod(0), moverPod(1, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-before", Attempt: 1})))},
	)
}

// TestFailedFirstPasses: the operation is reverted, or the mover is replaced.
func TestFailedFirstPasses(t *testing.T) {
	first := func(report moverreport.MemberReport) build.Option {
		report.Stage = moverreport.FirstContainer
		return reporting(moverreport.FirstContainer, report, corev1.PodFailed)
	}
	killed := build.Edit(func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}}
	})
	check(t,
		row{"the first passes do not converge", given(copying(), pod(0), failedJob(1,
			first(moverreport.MemberReport{Result: moverreport.ResultNotConverged, ForecastSeconds: 300, MaxStopSeconds: 60})))},
		row{"a read error", given(copying(), pod(0), failedJob(1,
			first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: "IOError", Message: "data: input/output error"})))},
		row{"only root can copy a file", given(copying(), pod(0),
			failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: moverreport.ReasonNotFaithful,
				Message: "data: owner"})))},
		row{"the target holds foreign data: its volume is retained first",
			given(copying(), pod(0), failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed,
				Reason: moverreport.ReasonTargetNotEmpty, Message: "data: files"})))},
		row{"the target holds foreign data, and its volume is retained",
			given(copying()[:4], pod(0), objects{build.Target(web0, "128Mi"),
				build.VolumeOf(build.Target(web0, "128Mi"), build.Retained(api.RoleForeign, web0))},
				failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Reason: moverreport.ReasonTargetNotEmpty,
					Message: "data: files"})))},
		row{"the mover was killed for its use of memory", given(copying(), pod(0), failedJob(1, killed))},
		row{"the mover was killed for its use of memory in the final pass", given(copying(), pod(0),
			failedJob(1, build.FirstPassConverged(), build.InPhase(corev1.PodFailed), build.Edit(func(p *corev1.Pod) {
				p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled",
					ExitCode: 137}}
			})))},
		row{"the mover failed without a report", given(copying(), pod(0), failedJob(1))},
		row{"the mover lost its lease: it is replaced", given(copying(), pod(0),
			failedJob(1, first(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeLeaseLost})))},
		row{"the mover's Job is being deleted: backup waits", given(copying(), pod(0), objects{build.Job(0, 1, build.Deleting())})},
		row{"the options of movers are unreadable", with(given(copying(), pod(0)), func(in *Input) { in.OptionsErr = errOptions{} })},
	)
}

var noFirstPass = build.Annotation(api.FirstPassAnnotation, api.FirstPassOff)

type errOptions struct{}

func (errOptions) Error() string { return "annotation drydock.dev/mover: field imagee is unknown" }

// TestMembersWithoutMover: such members are copied after they have stopped, or need no copy.
func TestMembersWithoutMover(t *testing.T) {
	alone := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	zero := append(set(whileMoving(api.MemberCopying), build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	back := build.Operation(api.Moving, build.Members(api.MemberCopying, web0), build.RollbackOf("ba9876543210"),
		build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = "pv-new-data-web-0" }))
	kept := func(options ...build.Option) objects {
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.BoundTo("pv-new-data-web-0"), build.UID("uid-before")), build.Released(),
			build.Retained(api.RoleOldVolume, web0),
			build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleOldVolume, Namespace: build.Namespace,
				Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: web0}))
		return objects{build.With(v, options...)}
	}
	own := objects{build.Journal(back)}
	check(t,
		row{"the set is scaled to zero: the member goes to restore without a copy", given(zero)},
		row{"only one pod may use a claim: the member is copied after its stop",
			given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0, alone), target(web0))},
		row{"the set wants no first pass: the member is copied after its stop",
			given(set(whileMoving(api.MemberCopying), noFirstPass), journal(web0), pod(0), source(web0), target(web0))},
		row{"the set wants no first pass any more: its mover is ended",
			given(set(whileMoving(api.MemberCopying, provisioned), noFirstPass), journal(web0), pod(0), source(web0), target(web0), moverPod(1))},
		row{"a rollback: the old volume is retained before its retention ends", given(set(back), own, pod(0), source(web0), kept())},
		row{"a rollback: nothing is copied", given(set(back), own, pod(0), source(web0), kept(build.Link(api.RoleReturning, web0)))},
		row{"a rollback whose old volume is gone", given(set(back), own, pod(0), source(web0))},
		row{"a rollback whose old volume is used by another claim",
			given(set(back), own, pod(0), source(web0), kept(build.TakenBy("debug", "uid-debug")))},
		row{"a rollback to an old volume of another claim",
			given(set(back), own, pod(0), source(web0), kept(build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleOldVolume,
				Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: "data-payroll-0"})))},
	)
}

// TestMemberScaledUpWhileWaitingIsCopiedBesideItsPod: the member had no pod when it was handed to restore, so it had no mover.
func TestMemberScaledUpWhileWaitingIsCopiedBesideItsPod(t *testing.T) {
	phase := func(node string, more ...objects) api.MemberPhase {
		record := whileMoving(api.MemberWaiting, build.EditMember(0, func(m *api.Member) { m.Pod, m.Node = "", node }))
		in := given(append([]objects{set(record), journal(web0), source(web0), target(web0)}, more...)...)
		if stored := build.Stored(Decide(in)); stored != nil {
			return stored.Members[0].Phase
		}
		return api.MemberWaiting
	}
	if got := phase("", pod(0)); got != api.MemberCopying {
		t.Errorf("member with a running pod: phase %s", got)
	}
	if got := phase(""); got != api.MemberWaiting {
		t.Errorf("member without a pod: phase %s", got)
	}
	if got := phase(build.NodeName, pod(0)); got != api.MemberWaiting {
		t.Errorf("member whose mover found no node beside the pod: phase %s", got)
	}
}

// TestOrderOfMembers: a rolling resize copies one member after the other. Otherwise the limit of parallel copies applies.
func TestOrderOfMembers(t *testing.T) {
	two := func(a, b api.MemberPhase, options ...func(*api.Resize)) objects {
		record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(a, web0), build.Members(b, web1)}, options...)...)
		all := append(set(record, build.Replicas(2)), append(journal(web0, web1), append(pod(0), pod(1)...)...)...)
		return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
	}
	single := func(in *Input) { in.Settings.Parallelism = 1 }
	waits1 := objects{build.Job(1, 1), build.Mover(build.Job(1, 1), onNode, build.FirstPassConverged())}
	primary1 := func(in *Input) {
		in.Set = build.With(in.Set, build.Annotation(api.PrimaryAnnotation, "role=primary"))
		build.With(in.MemberPod(1), build.Label("role", "primary"))
	}
	check(t,
		row{"rolling: the highest ordinal comes first", given(two(api.MemberPending, api.MemberPending, build.Rolling))},
		row{"rolling: one is copied, the other waits for its turn", given(two(api.MemberPending, api.MemberCopying, build.Rolling))},
		row{"rolling: one is moved, the other starts", given(two(api.MemberPending, api.MemberMoved, build.Rolling))},
		row{"rolling: the waiting member has become the primary, so the other one goes first",
			with(given(two(api.MemberPending, api.MemberWaiting, build.Rolling), waits1), primary1)},
		row{"rolling: the waiting primary is the last member",
			with(given(two(api.MemberMoved, api.MemberWaiting, build.Rolling), waits1), primary1)},
		row{"rolling: one has yielded, and the resize has no turn", given(two(api.MemberPending, api.MemberMoved, build.Rolling,
			func(r *api.Resize) { r.TurnReturned = true }))},
		row{"whole: all start", given(two(api.MemberPending, api.MemberPending))},
		row{"whole, parallelism 1: one mover at a time", with(given(two(api.MemberCopying, api.MemberCopying)), single)},
		row{"whole, parallelism 1: the second member waits while the first one's mover runs",
			with(given(two(api.MemberCopying, api.MemberCopying), moverPod(1)), single)},
		row{"whole, parallelism 1: the second member starts when the first one's mover waits at the gate",
			with(given(two(api.MemberCopying, api.MemberCopying), moverPod(1, build.FirstPassConverged())), single)},
	)
}

// TestMemberCopiedAgainForgetsItsMemberCheck: a check counts for two minutes, and the gate may open again within that time.
func TestMemberCopiedAgainForgetsItsMemberCheck(t *testing.T) {
	checked := build.EditMember(0, func(m *api.Member) { m.CheckedAt = operation.Moment(build.Now.Add(-time.Second)) })
	at := append(set(whileMoving(api.MemberWaiting, provisioned, checked)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at, pod(0, build.UID("uid-other")), moverPod(1, build.FirstPassConverged())))
	if record := build.Stored(p); record == nil || record.Members[0].Phase != api.MemberCopying || record.Members[0].CheckedAt != nil {
		t.Errorf("record after the pod was replaced at the gate: %+v: %s", record, p)
	}
}

// TestMemberWithoutAttachSlotIsCopiedAfterItsStop: the member's node cannot attach the new volume beside the present ones. Either the
// scheduler knows the limit, or the driver's limit is lower than the scheduler's. After the stop, the mover may run on another node.
func TestMemberWithoutAttachSlotIsCopiedAfterItsStop(t *testing.T) {
	const limit = "0/3 nodes are available: 1 node(s) exceed max volume count, 2 node(s) didn't match Pod's node affinity/selector."
	const exhausted = `AttachVolume.Attach failed for volume "pv-new-data-web-0" : rpc error: code = ResourceExhausted desc = max number ` +
		`of volumes (8) already attached to instance`
	unplaced := func(message string) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
				Message: message}}
		})
	}
	for name, row := range map[string]struct {
		age             time.Duration
		reason, message string
		pod             []build.Option
		want            bool
	}{
		"the scheduler knows the limit": {2 * time.Minute, "", "", []build.Option{unplaced(limit)}, true},
		"the attachment fails":          {2 * time.Minute, "FailedAttachVolume", exhausted, nil, true},
		"not for a minute":              {50 * time.Second, "FailedAttachVolume", exhausted, nil, false},
		"the scheduler lacks CPU":       {2 * time.Minute, "", "", []build.Option{unplaced("1 Insufficient cpu.")}, false},
		"another driver has another code": {2 * time.Minute, "FailedAttachVolume",
			"rpc error: code = Internal desc = The maximum number of data disks allowed to be attached to a VM of this size is 4.",
			nil, true},
		"the cloud throttles the driver": {2 * time.Minute, "FailedAttachVolume",
			"rpc error: code = ResourceExhausted desc = RequestLimitExceeded: request rate limit exceeded", nil, false},
		"the attachment fails for another cause": {2 * time.Minute, "FailedAttachVolume", "code = Internal desc = timeout", nil, false},
		"another Event has the text":             {2 * time.Minute, "FailedMount", exhausted, nil, false},
	} {
		mover := moverPod(1, append(row.pod, build.InPhase(corev1.PodPending), build.Age(row.age))...)
		in := given(set(whileMoving(api.MemberCopying, provisioned)), journal(web0), pod(0), source(web0), target(web0), mover)
		in.Warnings = map[string]Warning{mover[1].GetName(): {Reason: row.reason, Message: row.message, At: build.Now}}
		p := Decide(in)
		next := build.Stored(p)
		if !row.want {
			if next != nil && next.Members[0].RefusingNode != "" {
				t.Errorf("%s: the mover is given up: %s", name, p)
			}
			continue
		}
		if next == nil || next.Members[0].RefusingNode != build.NodeName || next.Reason != api.NoAttachSlot ||
			!strings.Contains(next.Message, "about 1 min") {
			t.Errorf("%s: %s, %+v", name, p, next)
			continue
		}
		// the record alone leads on
		p = Decide(given(set(next), journal(web0), pod(0), source(web0), target(web0)))
		handed := build.Stored(p)
		if handed == nil || handed.Members[0].Phase != api.MemberWaiting || handed.Members[0].Node != "" {
			t.Errorf("%s: it is not handed to restore without a node: %s", name, p)
			continue
		}
		// the pod moves to another node, which has room
		p = Decide(given(set(handed), journal(web0), podOn("node-2"), source(web0), target(web0)))
		if again := build.Stored(p); again == nil || again.Members[0].Phase != api.MemberCopying {
			t.Errorf("%s: the verdict counts on another node: %s", name, p)
		}
	}
}

// podOn returns the pod of member 0 after it has moved to the node.
func podOn(node string) objects {
	return pod(0, build.UID("uid-elsewhere"), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = node }))
}

// TestRefusedSourceIsCopiedInAnotherWay: the kubelet cannot mount the member's volume in the mover's pod. What decides is that the pod has
// not started for a minute, and that the Event about this pod names the source volume.
func TestRefusedSourceIsCopiedInAnotherWay(t *testing.T) {
	const busy = `MountVolume.SetUp failed for volume "pv-data-web-0" : rpc error: code = Internal desc = mount failed: exit status 32`
	level := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.SecurityContext = cmp.Or(s.Spec.Template.Spec.SecurityContext, &corev1.PodSecurityContext{})
		s.Spec.Template.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2"}
	})
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	writable := build.EditMember(0, func(m *api.Member) { m.WritableSources = true })
	const another, stopped = "another mover", "after the stop"
	sandbox := build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	})
	for name, row := range map[string]struct {
		age             time.Duration
		reason, message string
		record          func(*api.Resize)
		set             []build.Option
		claim, pod      []build.Option
		want            string
	}{
		"a label is known":      {2 * time.Minute, "FailedMount", busy, provisioned, []build.Option{level}, nil, nil, another},
		"no label is known":     {2 * time.Minute, "FailedMount", busy, provisioned, nil, nil, nil, stopped},
		"a writable mover, too": {2 * time.Minute, "FailedMount", busy, writable, []build.Option{level}, nil, nil, stopped},
		"a device": {2 * time.Minute, "FailedMapVolume", busy, provisioned, []build.Option{level}, []build.Option{block}, nil,
			stopped},
		"not for a minute":          {50 * time.Second, "FailedMount", busy, provisioned, nil, nil, nil, ""},
		"its volumes are mounted":   {2 * time.Minute, "FailedMount", busy, provisioned, nil, nil, []build.Option{sandbox}, ""},
		"the target":                {2 * time.Minute, "FailedMount", strings.ReplaceAll(busy, "pv-", "pv-new-"), provisioned, nil, nil, nil, ""},
		"another Event":             {2 * time.Minute, "FailedAttachVolume", busy, provisioned, nil, nil, nil, ""},
		"no Event":                  {2 * time.Minute, "", "", provisioned, nil, nil, nil, ""},
		"an image cannot be pulled": {2 * time.Minute, "Failed", busy, provisioned, nil, nil, nil, ""},
	} {
		mover := moverPod(1, append(row.pod, build.InPhase(corev1.PodPending), build.Age(row.age))...)
		at := append(set(whileMoving(api.MemberCopying, provisioned, row.record), row.set...), journal(web0)...)
		in := given(at, pod(0), source(web0, row.claim...), target(web0), mover)
		in.Warnings = map[string]Warning{mover[1].GetName(): {Reason: row.reason, Message: row.message, At: build.Now}}
		p := Decide(in)
		next := build.Stored(p)
		if row.want == "" {
			if next != nil && (next.Members[0].WritableSources || next.Members[0].RefusingNode != "" || next.Members[0].Attempt != 1) {
				t.Errorf("%s: the mover is given up: %s", name, p)
			}
			continue
		}
		if next == nil || next.Members[0].WritableSources != (row.want == another) ||
			next.Members[0].RefusingNode != map[string]string{stopped: build.NodeName}[row.want] || next.Members[0].Attempt != 2 ||
			next.Reason != api.NoFirstPass {
			t.Errorf("%s: want %q: %s, %+v", name, row.want, p, next)
			continue
		}
		// the function may die here: the record alone leads on, without the refused mover and its Event
		p = Decide(given(set(next, row.set...), journal(web0), pod(0), source(web0, row.claim...), target(web0)))
		if row.want == stopped {
			if next = build.Stored(p); next == nil || next.Members[0].Phase != api.MemberWaiting || next.Reason != api.NoFirstPass {
				t.Errorf("%s: it is not handed to restore: %s", name, p)
				continue
			}
			// the pod moves to another node, whose driver may work
			p = Decide(given(set(next, row.set...), journal(web0), podOn("node-2"), source(web0, row.claim...), target(web0)))
			if again := build.Stored(p); again == nil || again.Members[0].Phase != api.MemberCopying {
				t.Errorf("%s: the verdict counts on another node: %s", name, p)
			}
			continue
		}
		made := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Jobs && a.Verb == plan.VerbCreate })
		if made < 0 {
			t.Errorf("%s: no mover: %s", name, p)
			continue
		}
		spec := p.Actions[made].Object.(*batchv1.Job).Spec.Template.Spec
		for _, v := range spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly {
				t.Errorf("%s: volume %s is read-only in the pod", name, v.Name)
			}
		}
		for _, c := range spec.InitContainers {
			for _, m := range c.VolumeMounts {
				if strings.HasPrefix(m.Name, "source-") && !m.ReadOnly {
					t.Errorf("%s: container %s can write to %s", name, c.Name, m.MountPath)
				}
			}
		}
	}
}

// TestPodWithCrashingInitContainerIsCopiedOrExplained: the disk is full, so an init container of the pod fails again and again. Its phase
// is Pending, although its volumes are mounted. The user asks for a larger volume to repair exactly that. The wait must not be silent until
// the deadline.
func TestPodWithCrashingInitContainerIsCopiedOrExplained(t *testing.T) {
	crashing := build.Edit(func(p *corev1.Pod) {
		build.Age(3 * time.Hour)(p)
		p.Spec.InitContainers = []corev1.Container{{Name: "prepare"}}
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", RestartCount: 30, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container=prepare"}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	})
	p := Decide(given(copying(build.Due(24*time.Hour)), pod(0, crashing)))
	if next := build.Stored(p); next == nil || next.Phase == api.Moving && next.Members[0].Stalled == "" && next.Members[0].Pod == "" {
		t.Errorf("the pod has been failing for three hours; no mover is created and the record does not say why: %s", p)
	}
}
