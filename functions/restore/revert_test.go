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
	named := build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume, m.Claims[0].Digest = new0, "" })
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
