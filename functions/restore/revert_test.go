package restore

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// givenUp is an operation that was given up while its one member was in the phase.
func givenUp(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Reverting, append([]func(*api.Resize){build.Members(phase, web0), build.Due(time.Minute), because},
		options...)...)
}

func because(r *api.Resize) { r.FailedAt, r.Reason, r.Message = api.Moving, api.Aborted, "because" }

// TestReasonsToGiveUp shows when restore gives an operation up while members are moved.
func TestReasonsToGiveUp(t *testing.T) {
	late := append(setWith(movingOne(api.MemberWaiting, build.Due(-time.Second))),
		append(journalOf(web0), append(source(web0), target(web0)...)...)...)
	waiting := append(onlyMember(api.MemberWaiting), pod(0)...)
	check(t,
		testCase{"the API server refuses the new set", with(situation(waiting),
			func(in *Input) { in.CreationRefused = "spec.volumeClaimTemplates: too small" })},
		testCase{"the API server refuses a step before the deadline",
			with(situation(waiting), func(in *Input) { in.Rejected = "not allowed" })},
		testCase{"the API server refuses a step past the deadline",
			with(situation(late, pod(0)), func(in *Input) { in.Rejected = "not allowed" })},
		testCase{"the API server fails before the deadline: the event is delivered again",
			with(situation(waiting), func(in *Input) { in.WriteFailed = "webhook does not answer" })},
		testCase{"the API server fails past the deadline", with(situation(late, pod(0)),
			func(in *Input) { in.WriteFailed = "webhook does not answer" })},
		testCase{"an order to create the set is withdrawn with the decision",
			situation(setWith(movingOne(api.MemberWaiting), build.Annotation(api.AbortAnnotation, "")),
				objects{build.With(journalOf(web0)[0], build.Annotation(api.RecreateAnnotation,
					"{}"))}, pod(0), source(web0), target(web0))},
		testCase{"the operation is aborted while a member is swapped", situation(append(setWith(movingOne(api.MemberSwapping),
			build.Annotation(api.AbortAnnotation, "")), append(journalOf(web0), heldPodOf(0)...)...), source(web0), copyVolume(web0))},
	)
}

// TestRevertReleasesMembers: each member stays on its present volumes and is released with all of its claims.
func TestRevertReleasesMembers(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		return append(setWith(givenUp(phase, options...)), journalOf(web0)...)
	}
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	late := build.Due(-time.Second)
	check(t,
		testCase{"the member was never stopped",
			situation(at(api.MemberCopying), pod(0), source(web0), target(web0), objects{build.Job(0, 1)})},
		testCase{"a scale-down with whenScaled Delete removed claim and volume before the stop: nothing is left to undo",
			situation(at(api.MemberPending))},
		testCase{"claim and volume disappeared while the pod is held: it is not released without them",
			situation(at(api.MemberStopping), heldPodOf(0))},
		testCase{"the pod is held and runs: it keeps running", situation(at(api.MemberStopping), pod(0, build.Held(0)), source(web0),
			target(web0))},
		testCase{"the pod has stopped: it is released", situation(at(api.MemberFinalPass), heldPodOf(0), source(web0), target(web0))},
		testCase{"the lock is deleted",
			situation(at(api.MemberFinalPass, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
				lock(0), source(web0), target(web0))},
		testCase{"the new volume is reserved, and the claim not touched: the reservation is withdrawn",
			situation(at(api.MemberSwapping), heldPodOf(0), source(web0), reserved)},
		testCase{"the claim has Drydock's finalizer: it is not deleted, and the pod is released",
			situation(at(api.MemberSwapping), heldPodOf(0), source(web0, build.Finalizers(protection, api.FreezeFinalizer)),
				copyVolume(web0))},
		testCase{"the claim is being deleted: the swap is completed",
			situation(at(api.MemberSwapping), heldPodOf(0), frozenClaim(web0, protection), reserved)},
		testCase{"the claim is gone: it is created on its new volume",
			situation(at(api.MemberSwapping), heldPodOf(0), oldVolume(web0), reserved)},
		testCase{"the claim is on its new volume: the member is moved",
			situation(at(api.MemberSwapping), heldPodOf(0), swappedClaim(web0))},
		testCase{"the pod was released: the member is moved",
			situation(at(api.MemberSwapping), pod(0, build.UID("uid-fresh")), swappedClaim(web0))},
		testCase{"the member was starting", situation(at(api.MemberStarting), heldPodOf(0), swappedClaim(web0))},
		testCase{"the member was starting, and its claim is gone: it is not released without it",
			situation(at(api.MemberStarting), heldPodOf(0), oldVolume(web0), copyVolume(web0, build.TakenBy(web0, "uid-successor"),
				build.Released()))},
		testCase{"the claim is deleted by hand while the pod is held: it returns on its old volume",
			situation(at(api.MemberFinalPass), heldPodOf(0), oldVolume(web0), target(web0))},
		testCase{"the claim is being deleted by hand while the pod is held",
			situation(at(api.MemberFinalPass), heldPodOf(0), source(web0, build.Deleting()), target(web0))},
		testCase{"the claim is being deleted by hand under a running pod: restore does not interfere",
			situation(at(api.MemberCopying), pod(0), source(web0, build.Deleting()), target(web0))},
		testCase{"another controller keeps the terminating claim: the user gets a warning after the deadline",
			situation(at(api.MemberSwapping, late), heldPodOf(0), frozenClaim(web0, "example.com/keep"), reserved)},
		testCase{"all members are released: the operation's objects are removed",
			situation(at(api.MemberKept), pod(0), source(web0), target(web0), objects{build.Job(0, 1)})},
		testCase{"a slow process has deleted the claim: it returns to its old volume", situation(at(api.MemberKept), pod(0),
			source(web0, build.Deleting(), build.Finalizers(claimProtection, api.FreezeFinalizer)), target(web0))},
		testCase{"a copy that was never used is discarded, whatever its class says",
			situation(at(api.MemberKept), pod(0), source(web0), copyVolume(web0))},
		testCase{"a foreign volume that the temporary claim was bound to stays",
			situation(at(api.MemberKept), pod(0), source(web0), target(web0)[:1],
				objects{build.With(target(web0)[1].(*corev1.PersistentVolume), build.Retained(api.RoleForeign, web0))})},
		testCase{"nothing is left: the end is announced", situation(setWith(givenUp(api.MemberKept)), pod(0), untouchedClaim(web0))},
		testCase{"some members are moved: the message says so",
			situation(setWith(build.Operation(api.Reverting, build.Members(api.MemberMoved, web0),
				build.Members(api.MemberKept, web1), because), build.Replicas(2)),
				pod(0), pod(1), tidiedClaim(), untouchedClaim(web1))},
	)
}

// untouchedClaim is a claim to which no operation has written.
func untouchedClaim(name string) objects {
	claim := build.Claim(name, "64Mi")
	return objects{claim, build.VolumeOf(claim)}
}

// TestReservationForTakenNameIsWithdrawn: a user deleted the claim and its pod, and restore decided to restore the claim on its old
// volume. The StatefulSet controller was faster, so the pod runs on another volume, and the operation must not wait for the claim.
func TestReservationForTakenNameIsWithdrawn(t *testing.T) {
	returned := build.Operation(api.Reverting, build.Members(api.MemberCopying, web0))
	elsewhere := build.Claim(web0, "128Mi", build.BoundTo("pv-x"), build.UID("uid-x"))
	old := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	at := append(setWith(returned), append(journalOf(web0), old...)...)
	runs := situation(at, pod(0), objects{elsewhere, build.VolumeOf(elsewhere)})
	p := Decide(runs)
	if p.Kind != plan.KindDo || len(writesOf(p)) != 1 || writesOf(p)[0].Resource != plan.Volumes || writesOf(p)[0].Name != old0 ||
		!slices.Contains(writesOf(p)[0].Words, "no longer reserved") {
		t.Fatalf("volume %s stays reserved for the name of a claim that is bound to another one: %s", old0, p)
	}
	spent := oldVolume(web0, build.TakenBy(web0, "uid-web"), build.Released())
	p = Decide(situation(setWith(returned), journalOf(web0), spent, pod(0), objects{elsewhere, build.VolumeOf(elsewhere)}))
	if stored := build.Stored(p); stored == nil || stored.Members[0].Phase != api.MemberKept {
		t.Errorf("the member is not released: %s", p)
	}
	if p := Decide(situation(at, heldPodOf(0), objects{elsewhere, build.VolumeOf(elsewhere)})); p.Kind != plan.KindWait {
		t.Errorf("a held pod would start on an unknown volume: %s", p)
	}
}

// TestRevertRestoresOldTemplates: the set gets its old templates back if no member was moved.
func TestRevertRestoresOldTemplates(t *testing.T) {
	record := givenUp(api.MemberKept, build.ReplacesSet)
	partly := build.Operation(api.Reverting, build.Members(api.MemberMoved, web0), build.Members(api.MemberKept, web1), build.ReplacesSet,
		because)
	check(t,
		testCase{"no member is moved: the order is stored", situation(setWith(record), journalOf(web0), pod(0), source(web0))},
		testCase{"no member is moved, and the set has its old templates",
			situation(setWithOldTemplate(record), journalOf(web0), pod(0), source(web0))},
		testCase{"a member is moved: the new templates stay",
			situation(setWith(partly, build.Replicas(2)), journalOf(web0, web1), pod(0), pod(1),
				swappedClaim(web0), source(web1))},
		testCase{"a finalizer would block the set's deletion, before the deadline",
			situation(setWith(record, build.Finalizers("example.com/keep")), journalOf(web0), pod(0), source(web0))},
		testCase{"a finalizer would block the set's deletion past the deadline: the new templates stay",
			situation(setWith(givenUp(api.MemberKept, build.ReplacesSet, build.Due(-time.Second)), build.Finalizers("example.com/keep")),
				journalOf(web0), pod(0), source(web0))},
		testCase{"a partition keeps pods of an older revision: the new templates stay",
			situation(setWith(record, build.Edit(func(s *appsv1.StatefulSet) {
				rollsOut(s)
				s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
			})), journalOf(web0), pod(0), source(web0))},
		testCase{"the API server refuses the set with its old templates: the new ones stay",
			with(situation(setWith(record), journalOf(web0), pod(0), source(web0)), func(in *Input) { in.CreationRefused = "no" })},
	)
}

// TestRollbackRestoresOldVolumes: old volumes return to their claims and are never discarded.
func TestRollbackRestoresOldVolumes(t *testing.T) {
	const before = "ba9876543210"
	back := func(options ...build.Option) objects {
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.BoundTo(new0), build.UID("uid-before")), build.Released(),
			build.LinkOf(api.Link{Operation: id, Role: api.RoleReturning,
				Namespace: build.Namespace, Set: api.SetRef{Name: "web",
					UID: "uid-web"}, Claim: web0, Before: before}), build.Annotation(api.ReclaimPolicyAnnotation, "Delete"),
			build.Edit(func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			}))
		return objects{build.With(v, options...)}
	}
	named := build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume, m.Claims[0].Verified = new0, false })
	record := func(phase api.Phase, member api.MemberPhase) *api.Resize {
		return build.Operation(phase, build.Members(member, web0), named, build.RollbackOf(before), func(r *api.Resize) {
			if phase == api.Reverting {
				because(r)
			}
		})
	}
	journal := objects{build.Journal(record(api.Moving, api.MemberPending))}
	at := func(phase api.Phase, member api.MemberPhase) objects {
		return append(setWith(record(phase, member)), journal...)
	}
	unlinked := build.Edit(func(v *corev1.PersistentVolume) {
		delete(v.Annotations, api.OperationAnnotation)
	})
	check(t,
		testCase{"the member waits: it is stopped, no mover is needed",
			situation(at(api.Moving, api.MemberWaiting), pod(0), source(web0), back())},
		testCase{"the member has stopped: nothing is copied",
			situation(at(api.Moving, api.MemberStopping), heldPodOf(0), source(web0), back())},
		testCase{"the old volume is reserved", situation(at(api.Moving, api.MemberSwapping), heldPodOf(0), source(web0), back())},
		testCase{"another claim was bound to the old volume at the last moment: it keeps the volume",
			situation(at(api.Moving, api.MemberSwapping), heldPodOf(0), source(web0), back(build.TakenBy("debug", "uid-debug")))},
		testCase{"the link of the old volume is lost",
			situation(at(api.Moving, api.MemberSwapping), heldPodOf(0), source(web0), back(unlinked))},
		testCase{"the link of the old volume says that it is a copy",
			situation(at(api.Moving, api.MemberSwapping), heldPodOf(0), source(web0), back(build.Link(api.RoleTarget, web0)))},
		testCase{"the rollback is given up: the old volume is retained again",
			situation(at(api.Reverting, api.MemberKept), pod(0), source(web0), back())},
		testCase{"the rollback is given up, and the link of the old volume is lost",
			situation(at(api.Reverting, api.MemberKept), pod(0), source(web0), back(unlinked))},
		testCase{"the rollback is given up, and the link of the old volume says that it is a copy",
			situation(at(api.Reverting, api.MemberKept), pod(0), source(web0), back(build.Link(api.RoleTarget, web0)))},
		testCase{"the rollback has succeeded: the volume that was in use is kept",
			situation(at(api.Finishing, api.MemberMoved), pod(0, build.UID("uid-fresh")), oldVolume(web0),
				objects{successor(web0, new0, "128Mi")}, back(build.TakenBy(web0, "uid-successor")))},
		testCase{"the rollback has succeeded, and the claim was deleted by hand: both volumes are kept",
			situation(at(api.Finishing, api.MemberMoved), oldVolume(web0), back())},
		testCase{"the set is gone: the old volume has its window again", situation(journal, source(web0), back())},
	)
}

const before = "ba9876543210" // the operation that is rolled back

// returning is the old volume of a claim that a rollback restores.
func returning(name string, options ...build.Option) objects {
	v := build.VolumeOf(build.Claim(name, "128Mi", build.BoundTo("pv-new-"+name), build.UID("uid-before")), build.Released(),
		build.LinkOf(api.Link{Operation: id, Role: api.RoleReturning, Namespace: build.Namespace, Set: api.SetRef{Name: "web",
			UID: "uid-web"},
			Claim: name, Before: before}),
		build.Annotation(api.ReclaimPolicyAnnotation, "Delete"),
		build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}))
	return objects{build.With(v, options...)}
}

// rolledBackClaim is a claim that has its old volume back.
func rolledBackClaim(name string) objects {
	return append(append(oldVolume(name), successor(name, "pv-new-"+name, "128Mi")), returning(name,
		build.TakenBy(name, "uid-successor"))...)
}

// rollingBack is the record of a rollback.
func rollingBack(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	named := func(r *api.Resize) {
		for i := range r.Members {
			for j := range r.Members[i].Claims {
				move := &r.Members[i].Claims[j]
				move.NewVolume, move.Verified = "pv-new-"+move.Claim, false
			}
		}
		if phase == api.Reverting {
			because(r)
		}
	}
	return build.Operation(phase, append(options, build.RollbackOf(before), named)...)
}

// TestPodNeverStartsOnPartialRollback: data and log of different times make a broken database.
func TestPodNeverStartsOnPartialRollback(t *testing.T) {
	const logs0 = "logs-web-0"
	at := func(phase api.Phase) objects {
		record := rollingBack(phase, build.Members(api.MemberSwapping, web0, logs0))
		return objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "128Mi", "fixed"),
			build.Status(record)), build.Journal(record)}
	}
	pod0 := func(options ...build.Option) objects {
		return objects{build.With(build.PodOf("web", 0, "data", "logs"), options...)}
	}
	stopped := pod0(build.Held(0), build.Stopped())
	replaced := pod0(build.UID("uid-other"), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }))
	reserved := returning(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	check(t,
		testCase{"one claim is being deleted: the other is deleted before the first is replaced",
			situation(at(api.Moving), stopped, frozenClaim(web0), reserved, source(logs0), returning(logs0))},
		testCase{"one claim is being deleted, and the hold is lost",
			situation(at(api.Moving), replaced, frozenClaim(web0), reserved, source(logs0), returning(logs0))},
		testCase{"one claim is being deleted, and the rollback is given up",
			situation(at(api.Reverting), stopped, frozenClaim(web0), reserved, source(logs0), returning(logs0))},
		testCase{"both are being deleted", situation(at(api.Moving), stopped, frozenClaim(web0), reserved, frozenClaim(logs0),
			returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi"))))},
		testCase{"one claim has its old volume back, and the rollback is given up: the other claim follows",
			situation(at(api.Reverting), stopped, rolledBackClaim(web0), source(logs0),
				returning(logs0))},
		testCase{"both claims have their old volumes back, and the rollback is given up",
			situation(at(api.Reverting), stopped, rolledBackClaim(web0), rolledBackClaim(logs0))},
		testCase{"the rollback is given up before anything was deleted",
			situation(at(api.Reverting), stopped, source(web0), returning(web0), source(logs0),
				returning(logs0))},
		testCase{"the volume of the other one is gone", situation(at(api.Moving), stopped, frozenClaim(web0), reserved, source(logs0))},
	)
}

// TestWholeRollbackMovesMembersTogether: where all members stop together, for example as shards, their volumes must be from the same
// time.
func TestWholeRollbackMovesMembersTogether(t *testing.T) {
	at := func(phase api.Phase, options ...func(*api.Resize)) objects {
		record := rollingBack(phase, options...)
		return append(setWith(record, build.Replicas(2)), build.Journal(record))
	}
	stopped := build.EditMember(1, func(m *api.Member) { m.StoppedAt = m.HeldAt })
	both := build.Members(api.MemberSwapping, web0, web1)
	claims := append(append(append(source(web0), returning(web0)...), source(web1)...), returning(web1)...)
	half := append(append(source(web0), returning(web0)...), rolledBackClaim(web1)...)
	check(t,
		testCase{"one has stopped, the other not",
			situation(at(api.Moving, build.Members(api.MemberStopping, web0, web1), stopped), endingPod(0), heldPodOf(1),
				claims)},
		testCase{"the other has, too",
			situation(at(api.Moving, build.Members(api.MemberStopping, web0, web1), stopped), heldPodOf(0), heldPodOf(1), claims)},
		testCase{"one is stopped, the other one waits to be stopped again",
			situation(at(api.Moving, build.Members(api.MemberWaiting, web0), build.Members(api.MemberStopping, web1), stopped), pod(0),
				heldPodOf(1),
				claims)},
		testCase{"the rollback is given up before a claim was deleted",
			situation(at(api.Reverting, both), heldPodOf(0), heldPodOf(1), claims)},
		testCase{"one has its old volume back, and the rollback is given up: the other one follows",
			situation(at(api.Reverting, both), heldPodOf(0), heldPodOf(1), half)},
		testCase{"one has its old volume back, and the other one waits to be stopped again",
			situation(at(api.Moving, build.Members(api.MemberWaiting, web0), build.Members(api.MemberSwapping, web1)), pod(0),
				heldPodOf(1), half)},
		testCase{"one has its old volume back, and another process started the pod of the other one",
			situation(at(api.Moving, both), pod(0, build.UID("uid-other")), heldPodOf(1), half)},
	)
}

// TestBegunRollbackIsNotGivenUpAfterOneFailure: a rollback of all members together has deleted the claim of web-0, so web-1 must follow and
// cannot start on its unchanged claim (mustFollowRollback). The functions were down, so the deadline has passed; then one write fails.
func TestBegunRollbackIsNotGivenUpAfterOneFailure(t *testing.T) {
	late := func(r *api.Resize) {
		for i := range r.Members {
			r.Members[i].Deadline = &metav1.Time{Time: build.Now.Add(-time.Second)}
		}
	}
	world := func(phase api.Phase) Input {
		whole := rollingBack(phase, build.Members(api.MemberSwapping, web0, web1), late,
			func(r *api.Resize) { r.Strategy = api.StrategyWhole }, build.Due(20*time.Hour))
		return situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))), source(web1), returning(web1))
	}
	in := world(api.Moving)
	in.WriteFailed = "Internal error occurred: failed calling webhook: connection refused"
	p := Decide(in)
	if p.Reason == api.DeadlineExceeded && deletesClaim(Decide(world(api.Reverting)).Actions) {
		t.Errorf("the rollback is given up and reported as failed, and then completed all the same:\n%s\n%s", p, Decide(world(api.Reverting)))
	}
}

// TestRollbackOfOrderedSetStopsAllMembers: the defaults, OrderedReady and `whole`. Member 1 has stopped. It waits for member 0, because
// their volumes must come back together. So member 0 must be stopped now.
func TestRollbackOfOrderedSetStopsAllMembers(t *testing.T) {
	record := build.Operation(api.Moving, build.RollbackOf("0123456789ff"), build.Members(api.MemberStopping, web0, web1),
		build.MemberDue(0, time.Hour), build.MemberDue(1, time.Hour))
	for i := range record.Members {
		record.Members[i].Claims[0].NewVolume = "pv-new-" + record.Members[i].Claims[0].Claim
	}
	record.Member(1).StoppedAt = record.Member(1).HeldAt
	returning := func(claim string) objects {
		return objects{build.VolumeOf(build.Target(claim, "128Mi"), build.Released(), build.Retained(api.RoleReturning, claim))}
	}
	in := situation(setWith(record, build.Replicas(2)), objects{build.Journal(record)}, source(web0), source(web1), returning(web0),
		returning(web1),
		pod(0, build.Held(0)), heldPodOf(1))
	p := Decide(in)
	if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && a.Verb == plan.VerbDelete
	}) {
		t.Errorf("member 1 is down and waits for member 0, which is never stopped: %s", p)
	}
}

// TestFailingDryRunStopsNoSetForADay: the webhook for claims does not answer (failurePolicy Fail), so the API server answers 500 to the
// dry run before the first deletion of a rollback. Nothing was changed. DRYDOCK_SWAP_TIMEOUT (15m) has passed, and DRYDOCK_COPY_TIMEOUT
// (24h) has not. A refusal (403) ends the rollback here, and so must a failure: all members are down.
func TestFailingDryRunStopsNoSetForADay(t *testing.T) {
	late := func(r *api.Resize) {
		for i := range r.Members {
			r.Members[i].Deadline = &metav1.Time{Time: build.Now.Add(-time.Hour)}
		}
	}
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), late,
		func(r *api.Resize) { r.Strategy = api.StrategyWhole }, build.Due(20*time.Hour))
	in := situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
		source(web0), returning(web0), source(web1), returning(web1))
	in.WriteFailed = `Internal error occurred: failed calling webhook "claims.policies.example": context deadline exceeded`
	if p := Decide(in); p.Kind != plan.KindDo || p.Reason == api.SwapRunning {
		t.Errorf("all members stay stopped on their unchanged claims: %s", p)
	}
	if p := Decide(with(in, func(in *Input) { in.Rejected, in.WriteFailed = in.WriteFailed, "" })); p.Reason != api.Rejected {
		t.Errorf("a refusal does not end the rollback either: %s", p)
	}
}

// TestRollbackFreesAllClaimsBeforeItCreatesOne: a resize grew data by 60Gi less than it shrank logs, or the quota was lowered since. The
// quota has room for the old claims, and the preflight has compared the sums. But it has no room for the larger one while the other
// present claim counts. If the creation comes first, it is refused by each event, nothing after it is carried out, and the pod stays
// held.
func TestRollbackFreesAllClaimsBeforeItCreatesOne(t *testing.T) {
	const logs0 = "logs-web-0"
	record := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	set := objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "128Mi", "fixed"), build.Status(record)),
		build.Journal(record)}
	pod := objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())}
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	for name, row := range map[string]struct {
		in   Input
		want []string
	}{
		"two claims of a member": {situation(set, pod, frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(logs0), returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))),
			[]string{"patch data-web-0", "patch logs-web-0", "create data-web-0", "create logs-web-0"}},
		"the first is gone, and its creation was refused": {situation(set, pod, oldVolume(web0),
			returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(logs0), returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))),
			[]string{"patch logs-web-0", "create data-web-0", "create logs-web-0"}},
		"two members that stop together": {situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(web1), returning(web1, build.Reserved(manifest(web1, "pv-new-"+web1, "128Mi")))),
			[]string{"patch data-web-0", "patch data-web-1", "create data-web-0", "create data-web-1"}},
	} {
		p := Decide(row.in)
		var got []string
		for _, a := range p.Actions {
			if a.Resource == plan.Claims {
				got = append(got, string(a.Verb)+" "+a.Name)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, want %q: %s", name, got, row.want, p)
		}
	}
}

// TestRefusedDryRunOfRollbackSaysSo: all members are stopped, and the API server refuses the dry run of a claim on its old volume. No claim
// was deleted. Either the members start again at once, or the record says why the set stays stopped until the deadline of the swap.
func TestRefusedDryRunOfRollbackSaysSo(t *testing.T) {
	record := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), build.MemberDue(0, time.Hour),
		build.MemberDue(1, time.Hour), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	in := situation(append(setWith(record, build.Replicas(2)), build.Journal(record)), heldPodOf(0), heldPodOf(1), source(web0),
		returning(web0), source(web1), returning(web1))
	in.Rejected = "policy retain-class denies claim data-web-0"
	if p := Decide(in); build.Stored(p) == nil {
		t.Errorf("the set is stopped, and its record does not say why: %s", p)
	}
}

// TestRollbackTriesAllClaimsBeforeTheFirstDeletion: a policy or a webhook may refuse a claim on its old volume since the resize. No pod
// starts on half of a rollback, so after the first deletion there is no way back.
func TestRollbackTriesAllClaimsBeforeTheFirstDeletion(t *testing.T) {
	const logs0 = "logs-web-0"
	one := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	for name, row := range map[string]struct {
		in     Input
		claims int
	}{
		"two claims of a member": {situation(objects{build.Set("web", build.Template("data", "128Mi", "fixed"),
			build.Template("logs", "128Mi", "fixed"), build.Status(one)), build.Journal(one)},
			objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())},
			source(web0), returning(web0), source(logs0), returning(logs0)), 2},
		"two members that stop together": {situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			source(web0), returning(web0), source(web1), returning(web1)), 2},
	} {
		p, tried := Decide(row.in), 0
		for _, a := range p.Actions {
			switch {
			case a.Resource == plan.Claims && a.Verb == plan.VerbTry:
				tried++
			case a.Resource == plan.Claims && a.Verb == plan.VerbDelete && tried < row.claims:
				t.Errorf("%s: %s is deleted after %d of %d dry runs: %s", name, a.Name, tried, row.claims, p)
			}
		}
		if tried == 0 {
			t.Errorf("%s: no dry run: %s", name, p)
		}
	}
}
