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

// givenUp is an operation that was given up, whose one member was in the phase.
func givenUp(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Reverting, append([]func(*api.Resize){build.Members(phase, web0), build.Due(time.Minute), because},
		options...)...)
}

func because(r *api.Resize) { r.FailedAt, r.Reason, r.Message = api.Moving, api.Aborted, "because" }

// TestWhyAnOperationIsGivenUp: restore decides it while members are moved.
func TestWhyAnOperationIsGivenUp(t *testing.T) {
	late := append(set(moving0(api.MemberWaiting, build.Due(-time.Second))),
		append(journal(web0), append(source(web0), target(web0)...)...)...)
	waiting := append(alone(api.MemberWaiting), pod(0)...)
	check(t,
		row{"the API server would not create the set again", but(given(waiting),
			func(in *Input) { in.Refused = "spec.volumeClaimTemplates: too small" })},
		row{"the API server refuses a step, and there is time", but(given(waiting), func(in *Input) { in.Rejected = "not allowed" })},
		row{"the API server refuses a step, and the time is over",
			but(given(late, pod(0)), func(in *Input) { in.Rejected = "not allowed" })},
		row{"the API server fails, and there is time: the event comes again",
			but(given(waiting), func(in *Input) { in.Failing = "webhook does not answer" })},
		row{"the API server fails, and the time is over", but(given(late, pod(0)),
			func(in *Input) { in.Failing = "webhook does not answer" })},
		row{"an order to create the set is withdrawn with the decision",
			given(set(moving0(api.MemberWaiting), build.Annotation(api.AbortAnnotation, "")),
				objects{build.With(journal(web0)[0], build.Annotation(api.RecreateAnnotation, "{}"))}, pod(0), source(web0), target(web0))},
		row{"it is aborted while a member is swapped", given(append(set(moving0(api.MemberSwapping),
			build.Annotation(api.AbortAnnotation, "")), append(journal(web0), held(0)...)...), source(web0), copied(web0))},
	)
}

// TestReverting: each member stays on the volumes that it has, and is released with all of its claims.
func TestReverting(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		return append(set(givenUp(phase, options...)), journal(web0)...)
	}
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	late := build.Due(-time.Second)
	check(t,
		row{"the member was never stopped", given(at(api.MemberCopying), pod(0), source(web0), target(web0), objects{build.Job(0, 1)})},
		row{"claim and volume went before anything was begun, as when the set is scaled down with whenScaled Delete: nothing is left to undo",
			given(at(api.MemberPending))},
		row{"claim and volume went while the pod is held: it is not released without them", given(at(api.MemberStopping), held(0))},
		row{"the pod is held and runs: it goes on running", given(at(api.MemberStopping), pod(0, build.Held(0)), source(web0),
			target(web0))},
		row{"the pod has stopped: it is released", given(at(api.MemberFinalPass), held(0), source(web0), target(web0))},
		row{"the lock goes", given(at(api.MemberFinalPass, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
			lock(0), source(web0), target(web0))},
		row{"the new volume is reserved, and the claim not touched: the reservation is withdrawn",
			given(at(api.MemberSwapping), held(0), source(web0), reserved)},
		row{"the claim is marked: it is not deleted, and the pod is released",
			given(at(api.MemberSwapping), held(0), source(web0, build.Finalizers(protection, api.SwitchFinalizer)), copied(web0))},
		row{"the claim is being deleted: the swap is completed",
			given(at(api.MemberSwapping), held(0), doomed(web0, protection), reserved)},
		row{"the claim is gone: it is created on its new volume", given(at(api.MemberSwapping), held(0), oldVolume(web0), reserved)},
		row{"the claim is on its new volume: the member is moved", given(at(api.MemberSwapping), held(0), switched(web0))},
		row{"the pod was released: the member is moved", given(at(api.MemberSwapping), pod(0, build.UID("uid-fresh")), switched(web0))},
		row{"the member was starting", given(at(api.MemberStarting), held(0), switched(web0))},
		row{"the member was starting, and its claim is gone: it is not released without it",
			given(at(api.MemberStarting), held(0), oldVolume(web0), copied(web0, build.TakenBy(web0, "uid-successor"), build.Released()))},
		row{"the claim is deleted by hand while the pod is held: it comes back on its old volume",
			given(at(api.MemberFinalPass), held(0), oldVolume(web0), target(web0))},
		row{"the claim is being deleted by hand while the pod is held",
			given(at(api.MemberFinalPass), held(0), source(web0, build.Deleting()), target(web0))},
		row{"the claim is being deleted by hand under a pod that runs: that is not ours",
			given(at(api.MemberCopying), pod(0), source(web0, build.Deleting()), target(web0))},
		row{"another controller keeps the claim that is being deleted: people are told after the deadline",
			given(at(api.MemberSwapping, late), held(0), doomed(web0, "example.com/keep"), reserved)},
		row{"all is released: what was made goes", given(at(api.MemberKept), pod(0), source(web0), target(web0), objects{build.Job(0, 1)})},
		row{"a slow plan has deleted the claim since: it goes back to its old volume", given(at(api.MemberKept), pod(0),
			source(web0, build.Deleting(), build.Finalizers(claimProtection, api.SwitchFinalizer)), target(web0))},
		row{"a copy that was never used goes, whatever its class says", given(at(api.MemberKept), pod(0), source(web0), copied(web0))},
		row{"a volume of others on which the copy would have been made stays",
			given(at(api.MemberKept), pod(0), source(web0), target(web0)[:1],
				objects{build.With(target(web0)[1].(*corev1.PersistentVolume), build.Retained(api.RoleForeign, web0))})},
		row{"nothing is left: it is told", given(set(givenUp(api.MemberKept)), pod(0), bare(web0))},
		row{"a part of the members is moved: it is told", given(set(build.Operation(api.Reverting, build.Members(api.MemberMoved, web0),
			build.Members(api.MemberKept, web1), because), build.Replicas(2)),
			pod(0), pod(1), tidied(), bare(web1))},
	)
}

// bare is a claim of which no operation has written anything.
func bare(name string) objects {
	claim := build.Claim(name, "64Mi")
	return objects{claim, build.VolumeOf(claim)}
}

// TestReservationForANameThatIsTakenIsWithdrawn: the claim and its pod were deleted by a user, and the StatefulSet controller was faster
// than restore, which had decided to give the old volume back. The pod runs on another volume, so the operation must not wait for the
// claim.
func TestReservationForANameThatIsTakenIsWithdrawn(t *testing.T) {
	returned := build.Operation(api.Reverting, build.Members(api.MemberCopying, web0))
	elsewhere := build.Claim(web0, "128Mi", build.On("pv-x"), build.UID("uid-x"))
	old := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	at := append(set(returned), append(journal(web0), old...)...)
	runs := given(at, pod(0), objects{elsewhere, build.VolumeOf(elsewhere)})
	p := Decide(runs)
	if p.Kind != plan.KindDo || len(writesOf(p)) != 1 || writesOf(p)[0].Resource != plan.Volumes || writesOf(p)[0].Name != old0 ||
		!slices.Contains(writesOf(p)[0].Words, "no longer reserved") {
		t.Fatalf("volume %s stays reserved for the name of a claim that is bound to another one: %s", old0, p)
	}
	spent := oldVolume(web0, build.TakenBy(web0, "uid-web"), build.Released())
	p = Decide(given(set(returned), journal(web0), spent, pod(0), objects{elsewhere, build.VolumeOf(elsewhere)}))
	if stored := build.Stored(p); stored == nil || stored.Members[0].Phase != api.MemberKept {
		t.Errorf("the member is not at rest: %s", p)
	}
	if p := Decide(given(at, held(0), objects{elsewhere, build.VolumeOf(elsewhere)})); p.Kind != plan.KindWait {
		t.Errorf("a held pod would start on a volume that nobody knows: %s", p)
	}
}

// TestTemplatesAfterAnOperationWasGivenUp: the old ones come back if no member has been moved.
func TestTemplatesAfterAnOperationWasGivenUp(t *testing.T) {
	record := givenUp(api.MemberKept, build.ReplacesSet)
	partly := build.Operation(api.Reverting, build.Members(api.MemberMoved, web0), build.Members(api.MemberKept, web1), build.ReplacesSet,
		because)
	check(t,
		row{"no member is moved: the order is written down", given(set(record), journal(web0), pod(0), source(web0))},
		row{"no member is moved, and the set has its old templates", given(oldSet(record), journal(web0), pod(0), source(web0))},
		row{"a member is moved: the new templates stay", given(set(partly, build.Replicas(2)), journal(web0, web1), pod(0), pod(1),
			switched(web0), source(web1))},
		row{"a finalizer would hold the set, and there is time",
			given(set(record, build.Finalizers("example.com/keep")), journal(web0), pod(0), source(web0))},
		row{"a finalizer would hold the set until the deadline: the new templates stay",
			given(set(givenUp(api.MemberKept, build.ReplacesSet, build.Due(-time.Second)), build.Finalizers("example.com/keep")),
				journal(web0), pod(0), source(web0))},
		row{"a partition keeps pods of an older revision: the new templates stay",
			given(set(record, build.Edit(func(s *appsv1.StatefulSet) {
				rollsOut(s)
				s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
			})), journal(web0), pod(0), source(web0))},
		row{"the API server would not create the set with its old templates: the new ones stay",
			but(given(set(record), journal(web0), pod(0), source(web0)), func(in *Input) { in.Refused = "no" })},
	)
}

// TestRollback: old volumes come back, and are never thrown away.
func TestRollback(t *testing.T) {
	const before = "ba9876543210"
	back := func(options ...build.Option) objects {
		v := build.VolumeOf(build.Claim(web0, "128Mi", build.On(new0), build.UID("uid-before")), build.Released(),
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
		return build.Operation(phase, build.Members(member, web0), named, build.Rollback(before), func(r *api.Resize) {
			if phase == api.Reverting {
				because(r)
			}
		})
	}
	journal := objects{build.Journal(record(api.Moving, api.MemberPending))}
	at := func(phase api.Phase, member api.MemberPhase) objects {
		return append(set(record(phase, member)), journal...)
	}
	unlinked := build.Edit(func(v *corev1.PersistentVolume) {
		delete(v.Annotations, api.OperationAnnotation)
	})
	check(t,
		row{"the member waits: it is stopped, no mover is needed", given(at(api.Moving, api.MemberWaiting), pod(0), source(web0), back())},
		row{"it has stopped: nothing is copied", given(at(api.Moving, api.MemberStopping), held(0), source(web0), back())},
		row{"the old volume is reserved", given(at(api.Moving, api.MemberSwapping), held(0), source(web0), back())},
		row{"another claim was bound to the old volume in the last moment: it is not taken away",
			given(at(api.Moving, api.MemberSwapping), held(0), source(web0), back(build.TakenBy("debug", "uid-debug")))},
		row{"the link of the old volume is lost", given(at(api.Moving, api.MemberSwapping), held(0), source(web0), back(unlinked))},
		row{"the link of the old volume says that it is a copy",
			given(at(api.Moving, api.MemberSwapping), held(0), source(web0), back(build.Link(api.RoleTarget, web0)))},
		row{"it is given up: the old volume has its window again", given(at(api.Reverting, api.MemberKept), pod(0), source(web0), back())},
		row{"it is given up, and the link of the old volume is lost",
			given(at(api.Reverting, api.MemberKept), pod(0), source(web0), back(unlinked))},
		row{"it is given up, and the link of the old volume says that it is a copy",
			given(at(api.Reverting, api.MemberKept), pod(0), source(web0), back(build.Link(api.RoleTarget, web0)))},
		row{"it has succeeded: the volume that was in use is kept",
			given(at(api.Finishing, api.MemberMoved), pod(0, build.UID("uid-fresh")), oldVolume(web0),
				objects{successor(web0, new0, "128Mi")}, back(build.TakenBy(web0, "uid-successor")))},
		row{"it has succeeded, and the claim was deleted by hand: both volumes are kept",
			given(at(api.Finishing, api.MemberMoved), oldVolume(web0), back())},
		row{"the set is gone: the old volume has its window again", given(journal, source(web0), back())},
	)
}
