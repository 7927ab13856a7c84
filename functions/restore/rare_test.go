package restore

import (
	"strings"
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

// TestSwapInRareSituations has rows that each need a guard that no common situation exercises.
func TestSwapInRareSituations(t *testing.T) {
	record := setWith(movingOne(api.MemberSwapping))
	at := append(record, append(journalOf(web0), heldPodOf(0)...)...)
	lost := append(setWith(movingOne(api.MemberSwapping)), journalOf(web0)...)
	other := build.UID("uid-other")
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	wantsMore := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	})
	unread := func(in *Input) { in.ClaimManifests = nil }
	check(t,
		testCase{"the claim has changed since it was read: nothing is reserved for it",
			with(situation(at, source(web0), copyVolume(web0)), unread)},
		testCase{"a claim that failed to grow returns: it requests the size of its old volume",
			situation(lost, pod(0, other), source(web0, wantsMore, build.Deleting(), build.Finalizers(api.FreezeFinalizer, protection))[:1],
				oldVolume(web0), copyVolume(web0))},
		testCase{"the reservation was not seen by the volume controller when the claim was deleted: the claim stays",
			situation(at, frozenClaim(web0, protection), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")),
				build.Released()))},
		testCase{"the set wants no such member any more: the claim is let go without a lock",
			situation(setWith(movingOne(api.MemberSwapping), build.Replicas(0)), journalOf(web0), frozenClaim(web0, protection)[:1], back,
				copyVolume(web0))},
		testCase{"the pod is not held any more, and is ending: the claim stays until it has gone",
			situation(lost, pod(0, other, build.Deleting()), frozenClaim(web0, protection)[:1], back, copyVolume(web0))},
		testCase{"the successor was deleted when it was bound: its volume is reserved again",
			situation(at, oldVolume(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.TakenBy(web0,
				"uid-successor")))},
	)
}

// TestReturnedClaimRequestsSizeOfVolume: Kubernetes binds no claim to a reserved volume that is too small.
func TestReturnedClaimRequestsSizeOfVolume(t *testing.T) {
	claim := source(web0, build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	}), build.Deleting(), build.Finalizers(api.FreezeFinalizer, protection))[:1]
	p := Decide(situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), pod(0, build.UID("uid-other")), claim, oldVolume(web0),
		copyVolume(web0)))
	if len(writesOf(p)) != 1 || writesOf(p)[0].Name != old0 {
		t.Fatalf("volume %s is not reserved: %s", old0, p)
	}
	stored := false
	for _, op := range writesOf(p)[0].Ops {
		text, is := op.Value.(string)
		stored = stored || is && strings.Contains(text, `"storage":"64Mi"`) && !strings.Contains(text, `"storage":"1Gi"`)
	}
	if !stored {
		t.Errorf("the claim to come asks for more than volume %s has: %+v", old0, writesOf(p)[0].Ops)
	}
}

// TestClaimOwnerBlocksAsBefore: an owner whose deletion waited for the claim also waits for its successor, unless the API server refuses
// that.
func TestClaimOwnerBlocksAsBefore(t *testing.T) {
	for _, blocked := range []bool{true, false} {
		for _, may := range []bool{true, false} {
			owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "team", UID: "uid-team"}
			if blocked {
				owner.BlockOwnerDeletion = ptr.To(true)
			}
			patch := plan.PatchOf(plan.Claims, build.Claim(web0, "64Mi"))
			mergeOwners(patch, build.Claim(web0, "64Mi"), []metav1.OwnerReference{owner}, may)
			ops := patch.Actions()[0].Ops
			made, is := ops[len(ops)-1].Value.(metav1.OwnerReference)
			if !is || ptr.Deref(made.BlockOwnerDeletion, false) != (blocked && may) {
				t.Errorf("blocked before: %t, allowed: %t, the owner is added as %+v", blocked, may, made)
			}
			if !blocked && made.BlockOwnerDeletion != nil {
				t.Errorf("the owner had no such field, and has one: %+v", made)
			}
		}
	}
}

// TestStopInRareSituations is to stops what TestSwapInRareSituations is to swaps.
func TestStopInRareSituations(t *testing.T) {
	rollback := func(options ...func(*api.Resize)) objects {
		r := rollingBack(api.Moving, append(options, build.Rolling)...)
		return append(setWith(r, build.Replicas(2)), build.Journal(r))
	}
	both := append(append(source(web0), source(web1)...), append(returning(web0), returning(web1)...)...)
	check(t,
		testCase{"another member is lost just when the stop is proven: the pod is released",
			situation(lastOfThree(api.MemberStopping, build.MemberDue(2, time.Minute)), otherMembers(notReady()), heldPodOf(2))},
		testCase{"in a rolling rollback, a member that has stopped does not wait for the others",
			situation(rollback(build.Members(api.MemberWaiting, web0), build.Members(api.MemberStopping, web1)), both, pod(0),
				heldPodOf(1))},
		testCase{"a member has its new volumes while the final pass of another one runs",
			situation(setWith(build.Operation(api.Moving, build.Members(api.MemberFinalPass, web0), build.Members(api.MemberSwapping,
				web1)),
				build.Replicas(2)), journalOf(web0, web1), source(web0), target(web0), swappedClaim(web1), heldPodOf(0), heldPodOf(1))},
		testCase{"the first of two members is ready on its new volumes: backup continues with the other one",
			situation(setWith(build.Operation(api.Moving, build.Rolling, build.Members(api.MemberPending, web0),
				build.Members(api.MemberStarting, web1)), build.Replicas(2)), journalOf(web0, web1),
				source(web0), swappedClaim(web1), pod(0), pod(1, build.UID("uid-new")))},
		testCase{"a mover keeps the terminating claim of a ready pod: the mover ends before the member counts as moved",
			situation(setWith(movingOne(api.MemberStarting)), journalOf(web0), oldVolume(web0), pinMover(), pod(0, build.UID("uid-new")),
				objects{successor(web0, new0, "128Mi", build.Deleting())}, copyVolume(web0, build.TakenBy(web0, "uid-successor")))},
	)
}

// TestForeignFinalizerOnClaimBlocksStop: such a claim could not be replaced while its pod is stopped.
func TestForeignFinalizerOnClaimBlocksStop(t *testing.T) {
	foreign := build.Finalizers(protection, "example.com/keep")
	at := func(record *api.Resize, claim objects) Input {
		return situation(setWith(record), journalOf(web0), claim, target(web0), pod(0))
	}
	first := Decide(at(movingOne(api.MemberWaiting), source(web0, foreign)))
	again := build.Stored(first)
	if again == nil {
		t.Fatalf("the finalizer is not reported: %s", first)
	}
	check(t,
		testCase{"the finalizer is reported", at(movingOne(api.MemberWaiting), source(web0, foreign))},
		testCase{"the finalizer is reported only once", at(again, source(web0, foreign))},
		testCase{"a claim that was moved already does not count", at(movingOne(api.MemberWaiting, build.EditMember(0, func(m *api.Member) {
			m.Claims[0].Moved = true
		})), source(web0, foreign))},
	)
}

// TestDeletedClaimDoesNotEndOperationOfStoppedMember: if the pod is already stopped or Drydock will not stop it, giving up would gain
// nothing.
func TestDeletedClaimDoesNotEndOperationOfStoppedMember(t *testing.T) {
	logs := build.Claim("logs-web-0", "1Gi", build.Deleting())
	leaves := objects{logs, build.VolumeOf(logs)}
	memberIn := func(phase api.MemberPhase, claims objects, pods objects) Input {
		return situation(setWith(movingOne(phase), build.Template("logs", "1Gi", "fixed")), journalOf(web0), claims, leaves, pods)
	}
	copying := append(source(web0), target(web0)...)
	check(t,
		testCase{"its member has no pod", memberIn(api.MemberWaiting, copying, nil)},
		testCase{"its pod is terminating", memberIn(api.MemberWaiting, copying, pod(0, build.Deleting()))},
		testCase{"its member starts", memberIn(api.MemberStarting, swappedClaim(web0), pod(0, build.UID("uid-new"), notReady()))},
		testCase{"its member is moved", memberIn(api.MemberMoved, swappedClaim(web0), pod(0, build.UID("uid-new")))},
	)
}

// TestEndInRareSituations is to the end of an operation what TestSwapInRareSituations is to swaps.
func TestEndInRareSituations(t *testing.T) {
	record := givenUp(api.MemberKept, build.ReplacesSet, build.Due(-time.Second))
	late := situation(setWith(record), journalOf(web0), untouchedClaim(web0), pod(0))
	late.Rejected = "exceeded quota: team"
	finishing := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	successorOf := successor(web0, new0, "128Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-before"))
	marked := append(oldVolume(web0), successorOf, build.VolumeOf(successorOf, build.Retained(api.RoleTarget, web0)))
	before := build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web0),
		func(r *api.Resize) { r.Set.UID = "uid-before" }))
	letters := build.Annotation(api.DeadLettersAnnotation, "1")
	dead := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	check(t,
		testCase{"the API server refuses the old templates past the deadline: the set keeps the new ones", late},
		testCase{"a claim of the replaced set counts as a claim of the new set",
			situation(setWith(finishing), objects{before}, marked, pod(0))},
		testCase{"the operation has succeeded: its dead letters are removed",
			situation(setWith(dead, letters), swappedAndTidied(), pod(0))},
		testCase{"the operation has failed: its dead letters stay",
			situation(setWith(givenUp(api.MemberKept), letters), untouchedClaim(web0), pod(0))},
	)
}

// swappedAndTidied is a claim on its new volume, without a trace of an operation.
func swappedAndTidied() objects {
	claim := build.Claim(web0, "128Mi", build.BoundTo(new0))
	return objects{claim, build.VolumeOf(claim)}
}

// TestTemplatesOnlyOperationWritesJournalFirst: such an operation begins without a journal, and writes it before it touches the set.
func TestTemplatesOnlyOperationWritesJournalFirst(t *testing.T) {
	templates := build.Operation(api.Moving, build.ReplacesSet, build.DerivedID)
	ordered := movingOne(api.MemberWaiting, build.ReplacesSet)
	kept := givenUp(api.MemberKept, build.ReplacesSet)
	order := build.Annotation(api.RecreateAnnotation, "{}")
	check(t,
		testCase{"the journal is created first", situation(setWithOldTemplate(templates), pod(0))},
		testCase{"another controller's finalizer was added after the order: the order is withdrawn",
			situation(setWith(kept, build.Finalizers("example.com/keep")),
				objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), order)},
				untouchedClaim(web0), pod(0))},
		testCase{"the order stays while the gate is open",
			situation(setWithOldTemplate(ordered), journalOf(web0), source(web0), target(web0), pod(0))},
	)
}
