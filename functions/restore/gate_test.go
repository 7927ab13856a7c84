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

// rollsOut makes the set one whose pods get another revision.
func rollsOut(s *appsv1.StatefulSet) { s.Status.CurrentRevision, s.Status.UpdateRevision = "r1", "r2" }

// TestRollingStopNeedsAllOthersReady: one member may be stopped while all others are ready.
func TestRollingStopNeedsAllOthersReady(t *testing.T) {
	waiting := lastOfThree(api.MemberWaiting)
	setEdited := func(options ...build.Option) objects {
		again := append(objects{}, waiting...)
		again[0] = build.With(waiting[0].(*appsv1.StatefulSet).DeepCopy(), options...)
		return again
	}
	pending := build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })
	check(t,
		testCase{"another member is not ready", situation(waiting, otherMembers(notReady()), pod(2))},
		testCase{"another member is missing", situation(waiting, pod(0), pod(2))},
		testCase{"another member is terminating", situation(waiting, otherMembers(build.Deleting()), pod(2))},
		testCase{"another member is ready for less than minReadySeconds",
			situation(setEdited(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 120 })), otherMembers(), pod(2))},
		testCase{"the member itself is not ready: it may be stopped", situation(waiting, otherMembers(), pod(2, notReady()))},
		testCase{"the member's pod has never started", situation(waiting, otherMembers(), pod(2, pending))},
		testCase{"the member's pod is ending", situation(waiting, otherMembers(), pod(2, build.Deleting()))},
		testCase{"the member has no pod yet", situation(waiting, otherMembers())},
		testCase{"a pod of another owner has the member's name", situation(waiting, otherMembers(), pod(2, build.ControlledBy("Job", "other")))},
		testCase{"the set rolls out another revision",
			situation(setEdited(build.Edit(rollsOut)), pod(0, revision("r1")), pod(1, revision("r2")),
				pod(2, revision("r1")))},
		testCase{"the member has the revision that its replacement gets, others not yet",
			situation(setEdited(build.Edit(rollsOut)), pod(0, revision("r1")), pod(1, revision("r2")), pod(2, revision("r2")))},
		testCase{"another pod uses the member's claim", situation(waiting, otherMembers(), pod(2),
			objects{build.With(build.Pod("backup", []string{web2}),
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		testCase{"another pod that has ended still names the member's claim", situation(waiting, otherMembers(), pod(2),
			objects{build.With(build.Pod("backup", []string{web2}, build.InPhase(corev1.PodSucceeded)),
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		testCase{"the member's claim is gone: its pod, which has the data, runs on",
			with(situation(waiting, otherMembers(), pod(2)), func(in *Input) {
				in.Claims = slices.DeleteFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == web2 })
			})},
		testCase{"the member's claim was deleted, and only its running pod keeps it: a stop would be in vain",
			with(situation(waiting, otherMembers(), pod(2)),
				func(in *Input) {
					i := slices.IndexFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == web2 })
					in.Claims = slices.Clone(in.Claims)
					in.Claims[i] = build.With(in.Claims[i].DeepCopy(), build.Deleting())
				})},
		testCase{"the member is still being copied", situation(lastOfThree(api.MemberCopying), otherMembers(), pod(2))},
		testCase{"its mover was evicted: another one is created first", with(situation(waiting, otherMembers(), pod(2)), withoutMovers)},
		testCase{"its mover waits, but its Job is being deleted because the cutover was closed a moment ago",
			situation(waiting, otherMembers(), pod(2),
				objects{build.Job(2, 1, build.Deleting()), build.Mover(build.Job(2, 1), onNode, build.FirstPassConverged())})},
		testCase{"its mover was evicted and another one copies: that one must wait first", situation(waiting, otherMembers(), pod(2),
			objects{build.Job(2, 1), build.Mover(build.Job(2, 1), onNode)})},
	)
}

// TestPrimaryStopsLast: this also holds for a member that becomes the primary while it waits.
func TestPrimaryStopsLast(t *testing.T) {
	at := func(other api.MemberPhase) objects {
		all := twoTogether(build.Rolling, build.Members(api.MemberWaiting, web1), build.Members(other, web0))
		build.With(all[0].(*appsv1.StatefulSet), build.Annotation(api.PrimaryAnnotation, "role=primary"))
		return append(all, append(pod(0), pod(1, build.Label("role", "primary"))...)...)
	}
	check(t,
		testCase{"another member must still be moved", situation(at(api.MemberPending))},
		testCase{"the primary is the last member", situation(at(api.MemberMoved))},
	)
}

// TestWholeResizeStopsAllMembersTogether: either all members stop or none does.
func TestWholeResizeStopsAllMembersTogether(t *testing.T) {
	waiting := twoTogether(build.Members(api.MemberWaiting, web0, web1))
	check(t,
		testCase{"a member was started again after its copy: its mover is gone",
			situation(waiting, pod(0), pod(1, build.UID("uid-other")))},
		testCase{"the mover of a member was evicted: none is stopped", with(situation(waiting, pod(0), pod(1)), func(in *Input) {
			movers, _ := in.MoversOfMember(id, 1)
			in.Pods = slices.DeleteFunc(slices.Clone(in.Pods), func(p *corev1.Pod) bool { return slices.Contains(movers, p) })
		})},
		testCase{"a member is not ready: all stop anyway", situation(waiting, pod(0), pod(1, notReady()))},
		testCase{"a member has no pod yet: none is stopped", situation(waiting, pod(0))},
		testCase{"one member needs no pod, the other runs: one is locked, the other is stopped",
			situation(append(objects{build.With(waiting[0].(*appsv1.StatefulSet).DeepCopy(), build.Replicas(1))}, waiting[1:]...), pod(0))},
		testCase{"one member needs no pod, and another pod that has ended names its claim: none is stopped",
			situation(append(objects{build.With(waiting[0].(*appsv1.StatefulSet).DeepCopy(), build.Replicas(1))}, waiting[1:]...), pod(0),
				objects{build.Pod("backup", []string{web1}, onNode, build.InPhase(corev1.PodSucceeded))})},
	)
}

// TestMemberScaledUpWhileWaitingIsCopiedFirst: a member without a pod needs no mover. If it was scaled up and stopped without one, its
// stop would last as long as a copy of all its data.
func TestMemberScaledUpWhileWaitingIsCopiedFirst(t *testing.T) {
	cold := build.EditMember(0, func(m *api.Member) { m.Pod, m.Node = "", "" })
	waiting := onlyMember(api.MemberWaiting, cold)
	if p := Decide(situation(waiting, pod(0))); p.Kind == plan.KindDo && build.Stored(p).Members[0].Phase != api.MemberWaiting {
		t.Errorf("it is stopped: %s", p)
	}
	unplaced := onlyMember(api.MemberWaiting, build.EditMember(0, func(m *api.Member) { m.Pod = "" }))
	if p := Decide(situation(unplaced, pod(0))); build.Stored(p) == nil || build.Stored(p).Members[0].Phase != api.MemberStopping {
		t.Errorf("no node had room for a mover beside its pod, and it is not stopped: %s", p)
	}
	single := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	onePod := append(setWith(movingOne(api.MemberWaiting, cold)), append(journalOf(web0), append(source(web0, single),
		target(web0)...)...)...)
	if p := Decide(situation(onePod, pod(0))); build.Stored(p) == nil || build.Stored(p).Members[0].Phase != api.MemberStopping {
		t.Errorf("no mover can use its claim beside its pod, and it is not stopped: %s", p)
	}
	off := append(setWith(movingOne(api.MemberWaiting, cold), build.Annotation(api.FirstPassAnnotation, api.FirstPassOff)),
		append(journalOf(web0), append(source(web0), target(web0)...)...)...)
	if p := Decide(situation(off, pod(0))); build.Stored(p) == nil || build.Stored(p).Members[0].Phase != api.MemberStopping {
		t.Errorf("the set wants no first pass, and it is not stopped: %s", p)
	}
}

// TestDeletedClaimKeepsPodRunning: a pod is not stopped if another of its claims was deleted, because its replacement would get an empty
// one.
func TestDeletedClaimKeepsPodRunning(t *testing.T) {
	memberIn := func(phase api.MemberPhase, logs objects, pods objects) Input {
		return situation(setWith(movingOne(phase), build.Template("logs", "1Gi", "fixed")), journalOf(web0), source(web0), target(web0),
			logs, pods)
	}
	claim := build.Claim("logs-web-0", "1Gi", build.Deleting())
	leaves := objects{claim, build.VolumeOf(claim)}
	check(t,
		testCase{"its member is still being copied", memberIn(api.MemberCopying, leaves, pod(0))},
		testCase{"its member waits for its stop", memberIn(api.MemberWaiting, leaves, pod(0))},
		testCase{"its pod is held and was not deleted yet", memberIn(api.MemberStopping, leaves, pod(0, build.Held(0)))},
		testCase{"the claim belongs to another member, which is not moved", memberIn(api.MemberWaiting, objects{build.With(claim.DeepCopy(),
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Name = "logs-web-1" }))}, pod(0))},
	)
}

// TestStopWaitsForCutover: users decide when members stop.
func TestStopWaitsForCutover(t *testing.T) {
	at := func(options ...build.Option) Input {
		return situation(setWith(movingOne(api.MemberWaiting), options...), journalOf(web0), source(web0), target(web0), pod(0))
	}
	cutover := func(text string) build.Option { return build.Annotation(api.CutoverAnnotation, text) }
	again := at(cutover("approve"))
	templatesOnly := build.Operation(api.Moving, build.ReplacesSet, build.DerivedID)
	withoutTurn := func(r *api.Resize) { r.TurnReturned = true }
	rolling := func(other api.MemberPhase) Input {
		all := twoTogether(build.Rolling, build.Members(api.MemberWaiting, web1), build.Members(other, web0))
		build.With(all[0].(*appsv1.StatefulSet), cutover("approve"))
		return situation(all, pod(0), pod(1))
	}
	uncopied := func(options ...build.Option) Input {
		record := movingOne(api.MemberWaiting)
		record.Members[0].Pod = ""
		return situation(setWith(record, options...), journalOf(web0), source(web0), target(web0), pod(0))
	}
	again.Set = build.With(again.Set, build.Status(movingOne(api.MemberWaiting, withoutTurn, func(r *api.Resize) {
		r.Reason = api.GateClosed
		r.Message = "the copies have converged; the stop waits for an approval: kubectl drydock approve -n shop sts/web, or the " +
			"annotation drydock.dev/approve=" + id
	})))
	check(t,
		testCase{"automatic", at(cutover("auto"))},
		testCase{"an approval is missing: the record says so", at(cutover("approve"))},
		testCase{"an approval is missing: the record says so only once", again},
		testCase{"an approval is missing, and the other member has yet to move: the resize gives its turn back", rolling(api.MemberPending)},
		testCase{"an approval is missing, and the other member still starts: the resize keeps its turn", rolling(api.MemberStarting)},
		testCase{"an approval is missing, and the template of a hook cannot be read: nothing ends",
			at(cutover("approve"), build.Annotation(api.BeforeMemberAnnotation, "{"))},
		testCase{"an approval is missing, and the member gets no first pass", uncopied(cutover("approve"))},
		testCase{"the member gets no first pass, and its stop would be cancelled before the copy is complete",
			uncopied(build.Annotation(api.MaxStopAnnotation, "100ms"))},
		testCase{"the member gets no first pass, and max-stop allows that", uncopied(build.Annotation(api.MaxStopAnnotation, "1h"))},
		testCase{"the stop is approved, and the resize has no turn yet",
			situation(setWith(movingOne(api.MemberWaiting, withoutTurn), cutover("approve"), build.Annotation(api.ApproveAnnotation, id)),
				journalOf(web0), source(web0), target(web0), pod(0))},
		testCase{"another operation was approved", at(cutover("approve"), build.Annotation(api.ApproveAnnotation, "ba9876543210"))},
		testCase{"the stop is approved", at(cutover("approve"), build.Annotation(api.ApproveAnnotation, id))},
		testCase{"inside the window", at(cutover("Sun 11:00-13:00 UTC"))},
		testCase{"outside the window", at(cutover("Mon 11:00-13:00 UTC"))},
		testCase{"a window that cannot be read", at(cutover("tonight"))},
		testCase{"every member is moved: no approval is needed",
			situation(setWith(movingOne(api.MemberMoved), cutover("approve")), journalOf(web0), swappedClaim(web0),
				pod(0, build.UID("uid-other")))},
		testCase{"only templates change: this needs an approval as well",
			situation(setWithOldTemplate(templatesOnly, cutover("approve")), pod(0))},
		testCase{"only templates change, and the set already has them", situation(setWith(templatesOnly, cutover("approve")), pod(0))},
		testCase{"the operation is aborted at the gate", at(cutover("approve"), build.Annotation(api.AbortAnnotation, ""))},
		testCase{"the set opts out at the gate", at(cutover("approve"), build.Label(api.ManagedLabel, ""))},
		testCase{"the operation's time is over at the gate", func() Input {
			in := at(cutover("approve"))
			in.Set = build.With(in.Set, build.Status(movingOne(api.MemberWaiting, build.Due(-time.Second))))
			return in
		}()},
	)
}

// TestNewTemplatesPrecedeFirstStop: from the first stop on, every newly created claim fits the new volumes.
func TestNewTemplatesPrecedeFirstStop(t *testing.T) {
	record := movingOne(api.MemberWaiting, build.ReplacesSet)
	partition := build.Edit(func(s *appsv1.StatefulSet) {
		rollsOut(s)
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
	})
	all := append(append(source(web0), target(web0)...), pod(0)...)
	check(t,
		testCase{"the set has its old templates: the order to create it is written down",
			situation(setWithOldTemplate(record), journalOf(web0), all)},
		testCase{"the gate is closed: no order is stored",
			situation(setWithOldTemplate(record, build.Annotation(api.CutoverAnnotation, "approve")), journalOf(web0),
				all)},
		testCase{"a partition keeps pods of an older revision", situation(setWithOldTemplate(record, partition), journalOf(web0), all)},
		testCase{"the set has its new templates: the member is stopped", situation(setWith(record), journalOf(web0), all)},
		testCase{"another controller's finalizer is on the set",
			situation(setWithOldTemplate(record, build.Finalizers("example.com/keep")), journalOf(web0),
				all)},
	)
}
