package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
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

// withCheck gives the set of the input a member check.
func withCheck(in Input, options ...build.Option) Input {
	again := *in.Observed
	check := build.Annotation(api.MemberCheckAnnotation, "http:8008/caught-up")
	again.Set = build.With(in.Set.DeepCopy(), append([]build.Option{check}, options...)...)
	in.Observed = &again
	return in
}

const lags = "pod web-1 answers 503 to its member check; 200 to 299 mean that it has caught up"

// checkAnswers are the answers of the pods to the member check.
func checkAnswers(found map[types.UID]string) func(*Input) {
	return func(in *Input) { in.Checks = found }
}

var (
	allGood   = checkAnswers(map[types.UID]string{"uid-web-0": "", "uid-web-1": ""})
	oneBehind = checkAnswers(map[types.UID]string{"uid-web-0": "", "uid-web-1": lags})
	freshGood = checkAnswers(map[types.UID]string{"uid-fresh": ""})
	freshLags = checkAnswers(map[types.UID]string{"uid-fresh": "pod web-0 answers 503 to its member check"})
)

// checkedBefore says how long ago the check of the member's others was good for the first time.
func checkedBefore(ordinal int, ago time.Duration) func(*api.Resize) {
	return build.EditMember(ordinal, func(m *api.Member) { m.CheckedAt = operation.Moment(build.Now.Add(-ago)) })
}

// TestMemberStopsAfterOthersCaughtUpTwice: in a rolling resize, two good answers of all other members come before a stop.
func TestMemberStopsAfterOthersCaughtUpTwice(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return withCheck(situation(lastOfThree(api.MemberWaiting, options...), otherMembers(), pod(2)))
	}
	forbids := func(in *Input) { allGood(in); budgetForbids(in) }
	told := at(func(r *api.Resize) {
		r.Reason, r.Message = api.GateClosed, "pod web-2 is not stopped yet: "+lags
	})
	stopping := withCheck(situation(lastOfThree(api.MemberStopping, build.MemberDue(2, time.Minute)), otherMembers(),
		pod(2, build.Held(2))))
	check(t,
		testCase{"01 the others have not been asked", at()},
		testCase{"02 one has not caught up: the record says so", with(at(), oneBehind)},
		testCase{"03 one has not caught up: the record says so only once", with(told, oneBehind)},
		testCase{"04 all have caught up: the time is stored", with(at(), allGood)},
		testCase{"05 a second later: they are not asked yet", at(checkedBefore(2, time.Second))},
		testCase{"06 they must be asked again", at(checkedBefore(2, checkPause))},
		testCase{"07 one has fallen behind: the check begins again", with(at(checkedBefore(2, checkPause)), oneBehind)},
		testCase{"08 all have still caught up: the member is stopped", with(at(checkedBefore(2, checkPause)), allGood)},
		testCase{"09 the first answer is too old: this answer is the first", with(at(checkedBefore(2, checkFresh)), allGood)},
		testCase{"10 a budget closes the gate after the first answer: that answer no longer counts",
			with(at(checkedBefore(2, checkPause)), forbids)},
		testCase{"11 the process died before the eviction: the others must be asked again", stopping},
		testCase{"12 the process died, and one has fallen behind: the pod is released", with(stopping, oneBehind)},
		testCase{"13 the process died, and all have still caught up: the eviction follows", with(stopping, allGood)},
		testCase{"14 the annotation was damaged", withCheck(at(), build.Annotation(api.MemberCheckAnnotation, "exec:ready"))},
		testCase{"15 the member has no pod: the others need not catch up",
			withCheck(situation(lastOfThree(api.MemberWaiting), otherMembers()),
				build.Replicas(2))},
	)
}

// TestFirstGoodAnswerIsStoredAndCleared: the time of the first good answer is in the record until the member stops or answers badly.
func TestFirstGoodAnswerIsStoredAndCleared(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return withCheck(situation(lastOfThree(api.MemberWaiting, options...), otherMembers(), pod(2)))
	}
	for says, row := range map[string]struct {
		in    Input
		noted bool
	}{
		"good for the first time":       {with(at(), allGood), true},
		"good again, much later":        {with(at(checkedBefore(2, time.Hour)), allGood), true},
		"bad after a good one":          {with(at(checkedBefore(2, checkPause)), oneBehind), false},
		"good twice, and it is stopped": {with(at(checkedBefore(2, checkPause)), allGood), false},
		"the gate is shut by a budget":  {with(at(checkedBefore(2, time.Second)), budgetForbids), false},
	} {
		t.Run(says, func(t *testing.T) {
			record := build.Stored(Decide(row.in))
			if record == nil {
				t.Fatal("no record is stored")
			}
			switch is := record.Member(2).CheckedAt; {
			case row.noted && (is == nil || !is.Time.Equal(build.Now)):
				t.Errorf("noted is %v, want now", is)
			case !row.noted && is != nil:
				t.Errorf("noted is %v, want nothing", is)
			}
		})
	}
}

// TestWholeResizeSkipsMemberCheck: where all members stop together, no member has to replace another one, so the check is useless.
func TestWholeResizeSkipsMemberCheck(t *testing.T) {
	in := withCheck(situation(twoTogether(build.Members(api.MemberWaiting, web0, web1)), pod(0), pod(1)))
	check(t, testCase{"they are stopped", in})
	expectAsked(t, in)
}

// TestStartedMemberMustCatchUp: a ready member is not moved before it has caught up.
func TestStartedMemberMustCatchUp(t *testing.T) {
	fresh := build.UID("uid-fresh")
	at := func(due time.Duration, options ...build.Option) Input {
		record := movingOne(api.MemberStarting, build.MemberDue(0, due))
		return withCheck(situation(setWith(record), journalOf(web0), pod(0, append(options, fresh)...), swappedClaim(web0)))
	}
	damaged := func(in Input) Input { return withCheck(in, build.Annotation(api.MemberCheckAnnotation, "")) }
	check(t,
		testCase{"it is not ready: it is not asked", at(time.Minute, notReady())},
		testCase{"it is ready, and has not been asked", at(time.Minute)},
		testCase{"it has not caught up: the record says so", with(at(time.Minute), freshLags)},
		testCase{"it has not caught up in time: the operation is given up, and the member stays on its new volumes",
			with(at(-time.Second), freshLags)},
		testCase{"it has caught up", with(at(time.Minute), freshGood)},
		testCase{"it has caught up after the deadline: the answer counts", with(at(-time.Second), freshGood)},
		testCase{"the annotation was emptied", damaged(at(time.Minute))},
	)
}

// TestMemberCheckAsksOnlyWhenNeeded: each question costs a connection.
func TestMemberCheckAsksOnlyWhenNeeded(t *testing.T) {
	waiting := func(options ...func(*api.Resize)) objects { return lastOfThree(api.MemberWaiting, options...) }
	fresh := append(setWith(movingOne(api.MemberStarting, build.MemberDue(0, time.Minute))), journalOf(web0)...)
	givenUp := setWith(build.Operation(api.Reverting, build.Members(api.MemberStarting, web0)))
	for says, row := range map[string]struct {
		in   Input
		want []string
	}{
		"the gate is open otherwise": {withCheck(situation(waiting(), otherMembers(), pod(2))), []string{"web-0", "web-1"}},
		"the set has no check":       {situation(waiting(), otherMembers(), pod(2)), nil},
		"the annotation is damaged": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.MemberCheckAnnotation,
			"x")), nil},
		"another member is not ready": {withCheck(situation(waiting(), otherMembers(notReady()), pod(2))), nil},
		"the stop is not approved": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.CutoverAnnotation,
			"approve")), nil},
		"the member is copied":      {withCheck(situation(lastOfThree(api.MemberCopying), otherMembers(), pod(2))), nil},
		"the first answer is fresh": {withCheck(situation(waiting(checkedBefore(2, 0)), otherMembers(), pod(2))), nil},
		"the member ends":           {withCheck(situation(lastOfThree(api.MemberStopping), otherMembers(), endingPod(2))), nil},
		"the operation is aborted": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.AbortAnnotation, "")),
			nil},
		"the member starts":   {withCheck(situation(fresh, pod(0, build.UID("uid-fresh"), notReady()), swappedClaim(web0))), nil},
		"the member is ready": {withCheck(situation(fresh, pod(0, build.UID("uid-fresh")), swappedClaim(web0))), []string{"web-0"}},
		"the operation is given up": {withCheck(situation(givenUp, journalOf(web0), pod(0, build.UID("uid-fresh")), swappedClaim(web0))),
			nil},
		"the answers are there": {with(withCheck(situation(waiting(), otherMembers(), pod(2))), allGood), nil},
	} {
		t.Run(says, func(t *testing.T) { expectAsked(t, row.in, row.want...) })
	}
}

func expectAsked(t *testing.T, in Input, want ...string) {
	t.Helper()
	_, ask := decide(in)
	var names []string
	for _, pod := range ask {
		names = append(names, pod.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("got questions to %v, want %v", names, want)
	}
}

// TestMemberCheckOfAFastClockDelaysNoDays: a process with a clock thirty days ahead wrote the time of the first good check.
func TestMemberCheckOfAFastClockDelaysNoDays(t *testing.T) {
	in := withCheck(situation(lastOfThree(api.MemberWaiting, checkedBefore(2, -30*24*time.Hour)), otherMembers(), pod(2)))
	allGood(&in)
	if p := Decide(in); p.Kind != plan.KindDo {
		t.Errorf("all others have caught up, and the member does not stop for thirty days: %s", p)
	}
}

// TestMaxStopHoldsBesideUnwantedMember: member 0 runs, and only a claim is left of member 1. Member 0 is down until both are copied, so
// max-stop limits the copy of member 1 too. If the set is at zero, nothing is down.
func TestMaxStopHoldsBesideUnwantedMember(t *testing.T) {
	for replicas, want := range map[int32]time.Duration{1: 2 * time.Minute, 0: 24 * time.Hour} {
		record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0), build.Members(api.MemberStopping, web1),
			build.MemberDue(0, time.Hour), build.MemberDue(1, time.Hour), build.Due(24*time.Hour),
			build.EditMember(1, func(m *api.Member) { m.Locked, m.Pod, m.Node, m.StoppedAt = true, "", "", nil }))
		in := situation(setWith(record, build.Replicas(replicas), build.Annotation(api.MaxStopAnnotation, "1m")), journalOf(web0, web1),
			swappedClaim(web0), heldPodOf(0), lock(1), source(web1), target(web1))
		next := build.Stored(Decide(in))
		if next == nil || next.Member(1).Phase != api.MemberFinalPass || next.Member(1).Deadline.Sub(in.Now) != want {
			t.Errorf("%d replicas: %s, want a deadline in %s", replicas, Decide(in), want)
		}
	}
}

// TestMoverOfUnwantedMemberEndsWithItsCopy: the set is at zero, and member 0 waits for the copy of member 1. No pod needs its volumes
// attached, and a ResourceQuota counts the mover.
func TestMoverOfUnwantedMemberEndsWithItsCopy(t *testing.T) {
	for replicas, ends := range map[int32]bool{0: true, 1: false} {
		locked := func(ordinal int) func(*api.Resize) {
			return build.EditMember(ordinal, func(m *api.Member) { m.Locked, m.Pod, m.Node = true, "uid-lock", "" })
		}
		record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0), build.Members(api.MemberFinalPass, web1),
			build.MemberDue(0, time.Hour), build.Due(24*time.Hour), locked(0), locked(1))
		in := situation(setWith(record, build.Replicas(replicas)), journalOf(web0, web1), swappedClaim(web0), lock(0), lock(1), source(web1),
			target(web1), pinMover())
		p := Decide(in)
		if next := build.Stored(p); next != nil { // the claim has moved
			in.Set = build.With(in.Set.DeepCopy(), build.Status(next))
			p = Decide(in)
		}
		if got := strings.Contains(p.String(), "delete jobs"); got != ends {
			t.Errorf("%d replicas: %s, want the Job to be deleted: %t", replicas, p, ends)
		}
	}
}

// TestLeftoverClaimInRollingResizeHasTime: member 0 runs on its new volume already, and the set does not want member 1. No member is down
// while its claim is copied, so max-stop does not matter.
func TestLeftoverClaimInRollingResizeHasTime(t *testing.T) {
	record := build.Operation(api.Moving, build.Rolling, build.Members(api.MemberMoved, web0), build.Members(api.MemberStopping, web1),
		build.MemberDue(1, time.Hour), build.Due(24*time.Hour),
		build.EditMember(1, func(m *api.Member) { m.Locked, m.Pod, m.Node, m.StoppedAt = true, "", "", nil }))
	in := situation(setWith(record, build.Replicas(1)), journalOf(web0, web1), swappedClaim(web0), lock(1), source(web1), target(web1))
	next := build.Stored(Decide(in))
	if next == nil || next.Member(1).Phase != api.MemberFinalPass || next.Member(1).Deadline.Sub(in.Now) != 24*time.Hour {
		t.Errorf("%s: %+v", Decide(in), next)
	}
}
