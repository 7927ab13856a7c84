package restore

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func revision(hash string) build.Option {
	return build.Label(appsv1.ControllerRevisionHashLabelKey, hash)
}

// rollsOut is a set whose pods get another revision.
func rollsOut(s *appsv1.StatefulSet) { s.Status.CurrentRevision, s.Status.UpdateRevision = "r1", "r2" }

// TestGateOfRollingResize: one member may be stopped while all others serve.
func TestGateOfRollingResize(t *testing.T) {
	waiting := rolling3(api.MemberWaiting)
	with := func(options ...build.Option) objects {
		again := append(objects{}, waiting...)
		again[0] = build.With(waiting[0].(*appsv1.StatefulSet).DeepCopy(), options...)
		return again
	}
	pending := build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })
	check(t,
		row{"another member is not ready", given(waiting, others(notReady()), pod(2))},
		row{"another member is missing", given(waiting, pod(0), pod(2))},
		row{"another member is ending", given(waiting, others(build.Deleting()), pod(2))},
		row{"another member is ready for less than minReadySeconds",
			given(with(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 120 })), others(), pod(2))},
		row{"the member itself is not ready: it is stopped first", given(waiting, others(), pod(2, notReady()))},
		row{"the member's pod has never started", given(waiting, others(), pod(2, pending))},
		row{"the member's pod is ending", given(waiting, others(), pod(2, build.Deleting()))},
		row{"the member has no pod yet", given(waiting, others())},
		row{"a pod of another owner has the member's name", given(waiting, others(), pod(2, build.Owned("Job", "other")))},
		row{"the set rolls out another revision", given(with(build.Edit(rollsOut)), pod(0, revision("r1")), pod(1, revision("r2")),
			pod(2, revision("r1")))},
		row{"the member has the revision that its replacement gets, others not yet",
			given(with(build.Edit(rollsOut)), pod(0, revision("r1")), pod(1, revision("r2")), pod(2, revision("r2")))},
		row{"another pod uses the member's claim", given(waiting, others(), pod(2),
			objects{build.With(build.Pod("backup", []string{web2}),
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		row{"another pod that has ended names the member's claim still", given(waiting, others(), pod(2),
			objects{build.With(build.Pod("backup", []string{web2}, build.InPhase(corev1.PodSucceeded)),
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		row{"the member's claim is gone: its pod, which has the data, runs on", but(given(waiting, others(), pod(2)), func(in *Input) {
			in.Claims = slices.DeleteFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == web2 })
		})},
		row{"the member's claim was deleted, and only its running pod keeps it: a stop would be in vain", but(given(waiting, others(), pod(2)),
			func(in *Input) {
				i := slices.IndexFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == web2 })
				in.Claims = slices.Clone(in.Claims)
				in.Claims[i] = build.With(in.Claims[i].DeepCopy(), build.Deleting())
			})},
		row{"the member is copied still", given(rolling3(api.MemberCopying), others(), pod(2))},
		row{"its mover was evicted: another one is made first", but(given(waiting, others(), pod(2)), withoutMovers)},
		row{"its mover waits, but its Job is being deleted, since the cutover was shut a moment ago", given(waiting, others(), pod(2),
			objects{build.Job(2, 1, build.Deleting()), build.Mover(build.Job(2, 1), onNode, build.Waits())})},
		row{"its mover was evicted, and another one copies: that has to wait first", given(waiting, others(), pod(2),
			objects{build.Job(2, 1), build.Mover(build.Job(2, 1), onNode)})},
	)
}

// TestPrimaryIsStoppedLast: also one that has become the primary while it waited.
func TestPrimaryIsStoppedLast(t *testing.T) {
	at := func(other api.MemberPhase) objects {
		all := whole2(build.Rolling, build.Members(api.MemberWaiting, web1), build.Members(other, web0))
		build.With(all[0].(*appsv1.StatefulSet), build.Annotation(api.PrimaryAnnotation, "role=primary"))
		return append(all, append(pod(0), pod(1, build.Label("role", "primary"))...)...)
	}
	check(t,
		row{"another member is still to be moved", given(at(api.MemberPending))},
		row{"it is the last", given(at(api.MemberMoved))},
	)
}

// TestGateOfWholeResize: all members are stopped together.
func TestGateOfWholeResize(t *testing.T) {
	waiting := whole2(build.Members(api.MemberWaiting, web0, web1))
	check(t,
		row{"a member was started again since it was copied: its mover is gone", given(waiting, pod(0), pod(1, build.UID("uid-other")))},
		row{"the mover of a member was evicted: none is stopped", but(given(waiting, pod(0), pod(1)), func(in *Input) {
			movers, _ := in.MoversOfMember(id, 1)
			in.Pods = slices.DeleteFunc(slices.Clone(in.Pods), func(p *corev1.Pod) bool { return slices.Contains(movers, p) })
		})},
		row{"a member is not ready: all stop anyway", given(waiting, pod(0), pod(1, notReady()))},
		row{"a member has no pod yet: none is stopped", given(waiting, pod(0))},
		row{"one member has no pod and none is wanted, the other runs: the name of one is taken, the other is stopped",
			given(append(objects{build.With(waiting[0].(*appsv1.StatefulSet).DeepCopy(), build.Replicas(1))}, waiting[1:]...), pod(0))},
	)
}

// TestMemberThatWasScaledUpWhileItWaitedIsCopiedBeforeItStops: without a pod it needed no mover. Stopped without one, it would be away for
// as long as all of its data takes.
func TestMemberThatWasScaledUpWhileItWaitedIsCopiedBeforeItStops(t *testing.T) {
	cold := build.EditMember(0, func(m *api.Member) { m.Pod, m.Node = "", "" })
	waiting := alone(api.MemberWaiting, cold)
	if p := Decide(given(waiting, pod(0))); p.Kind == plan.KindDo && build.Stored(p).Members[0].Phase != api.MemberWaiting {
		t.Errorf("it is stopped: %s", p)
	}
	unplaced := alone(api.MemberWaiting, build.EditMember(0, func(m *api.Member) { m.Pod = "" }))
	if p := Decide(given(unplaced, pod(0))); build.Stored(p) == nil || build.Stored(p).Members[0].Phase != api.MemberStopping {
		t.Errorf("no node had room for a mover beside its pod, and it is not stopped: %s", p)
	}
	single := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	onePod := append(set(moving0(api.MemberWaiting, cold)), append(journal(web0), append(source(web0, single), target(web0)...)...)...)
	if p := Decide(given(onePod, pod(0))); build.Stored(p) == nil || build.Stored(p).Members[0].Phase != api.MemberStopping {
		t.Errorf("no mover can use its claim beside its pod, and it is not stopped: %s", p)
	}
}

// TestClaimThatLeavesKeepsItsPodRunning: a pod is not stopped whose other claim was deleted, since its replacement would get an empty one.
func TestClaimThatLeavesKeepsItsPodRunning(t *testing.T) {
	with := func(phase api.MemberPhase, logs objects, pods objects) Input {
		return given(set(moving0(phase), build.Template("logs", "1Gi", "fixed")), journal(web0), source(web0), target(web0), logs, pods)
	}
	claim := build.Claim("logs-web-0", "1Gi", build.Deleting())
	leaves := objects{claim, build.VolumeOf(claim)}
	check(t,
		row{"its member is copied still", with(api.MemberCopying, leaves, pod(0))},
		row{"its member waits at the gate", with(api.MemberWaiting, leaves, pod(0))},
		row{"its pod is held, and was not told to stop", with(api.MemberStopping, leaves, pod(0, build.Held(0)))},
		row{"it is of another member, which is not moved", with(api.MemberWaiting, objects{build.With(claim.DeepCopy(),
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Name = "logs-web-1" }))}, pod(0))},
	)
}

// TestCutover: people decide when members stop.
func TestCutover(t *testing.T) {
	at := func(options ...build.Option) Input {
		return given(set(moving0(api.MemberWaiting), options...), journal(web0), source(web0), target(web0), pod(0))
	}
	cutover := func(text string) build.Option { return build.Annotation(api.CutoverAnnotation, text) }
	again := at(cutover("approve"))
	templatesOnly := build.Operation(api.Moving, build.ReplacesSet, build.Genuine)
	again.Set = build.With(again.Set, build.Status(moving0(api.MemberWaiting, func(r *api.Resize) {
		r.Reason = api.GateClosed
		r.Message = "the copies have converged; the stop waits for an approval: kubectl drydock approve -n shop sts/web, or the annotation " +
			"drydock.dev/approve=" + id
	})))
	check(t,
		row{"automatic", at(cutover("auto"))},
		row{"it has to be approved: that is said", at(cutover("approve"))},
		row{"it has to be approved: that is said once", again},
		row{"another operation was approved", at(cutover("approve"), build.Annotation(api.ApproveAnnotation, "ba9876543210"))},
		row{"it is approved", at(cutover("approve"), build.Annotation(api.ApproveAnnotation, id))},
		row{"inside the window", at(cutover("Sun 11:00-13:00 UTC"))},
		row{"outside the window", at(cutover("Mon 11:00-13:00 UTC"))},
		row{"a window that cannot be read", at(cutover("tonight"))},
		row{"every member is moved: it is not asked for any more",
			given(set(moving0(api.MemberMoved), cutover("approve")), journal(web0), switched(web0), pod(0, build.UID("uid-other")))},
		row{"only templates change: that is approved, too", given(oldSet(templatesOnly, cutover("approve")), pod(0))},
		row{"only templates change, and they are as they should be", given(set(templatesOnly, cutover("approve")), pod(0))},
		row{"the operation is aborted at the gate", at(cutover("approve"), build.Annotation(api.AbortAnnotation, ""))},
		row{"the operation's time is over at the gate", func() Input {
			in := at(cutover("approve"))
			in.Set = build.With(in.Set, build.Status(moving0(api.MemberWaiting, build.Due(-time.Second))))
			return in
		}()},
	)
}

// TestTemplatesBeforeTheFirstStop: from the first stop on, whatever creates a claim creates one of the new kind.
func TestTemplatesBeforeTheFirstStop(t *testing.T) {
	record := moving0(api.MemberWaiting, build.ReplacesSet)
	partition := build.Edit(func(s *appsv1.StatefulSet) {
		rollsOut(s)
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
	})
	all := append(append(source(web0), target(web0)...), pod(0)...)
	check(t,
		row{"the set has its old templates: the order to create it is written down", given(oldSet(record), journal(web0), all)},
		row{"the gate is shut: nothing is ordered", given(oldSet(record, build.Annotation(api.CutoverAnnotation, "approve")), journal(web0),
			all)},
		row{"a partition keeps pods of an older revision", given(oldSet(record, partition), journal(web0), all)},
		row{"the set has its new templates: the member is stopped", given(set(record), journal(web0), all)},
		row{"another controller's finalizer is on the set", given(oldSet(record, build.Finalizers("example.com/keep")), journal(web0),
			all)},
	)
}
