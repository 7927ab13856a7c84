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

// TestSwapInRareSituations: each row needs one guard that no common situation does.
func TestSwapInRareSituations(t *testing.T) {
	record := set(moving0(api.MemberSwapping))
	at := append(record, append(journal(web0), held(0)...)...)
	lost := append(set(moving0(api.MemberSwapping)), journal(web0)...)
	other := build.UID("uid-other")
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	wantsMore := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	})
	unread := func(in *Input) { in.ClaimManifests = nil }
	check(t,
		row{"the claim has changed since it was read: it is not reserved for", but(given(at, source(web0), copied(web0)), unread)},
		row{"a claim that has failed to grow goes back: it asks for what its old volume has",
			given(lost, pod(0, other), source(web0, wantsMore, build.Deleting(), build.Finalizers(api.SwitchFinalizer, protection))[:1],
				oldVolume(web0), copied(web0))},
		row{"the reservation was not seen by the volume controller when the claim was deleted: the claim stays",
			given(at, doomed(web0, protection), copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.Released()))},
		row{"the set wants no such member any more: the claim is let go without a lock",
			given(set(moving0(api.MemberSwapping), build.Replicas(0)), journal(web0), doomed(web0, protection)[:1], back, copied(web0))},
		row{"the pod is not held any more, and is ending: the claim stays until it has gone",
			given(lost, pod(0, other, build.Deleting()), doomed(web0, protection)[:1], back, copied(web0))},
		row{"the successor was deleted when it was bound: its volume is reserved again",
			given(at, oldVolume(web0), copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.TakenBy(web0, "uid-successor")))},
	)
}

// TestClaimThatFailedToGrowGoesBackWithTheSizeOfItsVolume: Kubernetes binds no claim to a reserved volume that is too small.
func TestClaimThatFailedToGrowGoesBackWithTheSizeOfItsVolume(t *testing.T) {
	claim := source(web0, build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	}), build.Deleting(), build.Finalizers(api.SwitchFinalizer, protection))[:1]
	p := Decide(given(set(moving0(api.MemberSwapping)), journal(web0), pod(0, build.UID("uid-other")), claim, oldVolume(web0), copied(web0)))
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

// TestOwnerOfClaimIsBlockedAsBefore: an owner whose deletion waited for the claim waits for the one after it, unless the API server refuses.
func TestOwnerOfClaimIsBlockedAsBefore(t *testing.T) {
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

// TestStopInRareSituations: as TestSwapInRareSituations.
func TestStopInRareSituations(t *testing.T) {
	rollback := func(options ...func(*api.Resize)) objects {
		r := rollingBack(api.Moving, append(options, build.Rolling)...)
		return append(set(r, build.Replicas(2)), build.Journal(r))
	}
	both := append(append(source(web0), source(web1)...), append(returning(web0), returning(web1)...)...)
	check(t,
		row{"another member is lost in the moment in which the stop is proven: the pod is released",
			given(rolling3(api.MemberStopping, build.MemberDue(2, time.Minute)), others(notReady()), held(2))},
		row{"in a rolling rollback, a member that has stopped does not wait for the others",
			given(rollback(build.Members(api.MemberWaiting, web0), build.Members(api.MemberStopping, web1)), both, pod(0), held(1))},
		row{"a member has its new volumes while the final pass of another one runs",
			given(set(build.Operation(api.Moving, build.Members(api.MemberFinalPass, web0), build.Members(api.MemberSwapping, web1)),
				build.Replicas(2)), journal(web0, web1), source(web0), target(web0), switched(web1), held(0), held(1))},
		row{"the first of two members serves on its new volumes: backup goes on with the other one",
			given(set(build.Operation(api.Moving, build.Rolling, build.Members(api.MemberPending, web0), build.Members(api.MemberStarting,
				web1)), build.Replicas(2)), journal(web0, web1), source(web0), switched(web1), pod(0), pod(1, build.UID("uid-new")))},
		row{"a pod serves, but its claim is being deleted, and a mover keeps that: the mover ends before the member counts as moved",
			given(set(moving0(api.MemberStarting)), journal(web0), oldVolume(web0), pinning(), pod(0, build.UID("uid-new")),
				objects{successor(web0, new0, "128Mi", build.Deleting())}, copied(web0, build.TakenBy(web0, "uid-successor")))},
	)
}

// TestClaimOfAnotherControllerKeepsTheGateShut: its claim could not go while its pod is stopped.
func TestClaimOfAnotherControllerKeepsTheGateShut(t *testing.T) {
	foreign := build.Finalizers(protection, "example.com/keep")
	at := func(record *api.Resize, claim objects) Input {
		return given(set(record), journal(web0), claim, target(web0), pod(0))
	}
	first := Decide(at(moving0(api.MemberWaiting), source(web0, foreign)))
	again := build.Stored(first)
	if again == nil {
		t.Fatalf("nothing is told: %s", first)
	}
	check(t,
		row{"that is told", at(moving0(api.MemberWaiting), source(web0, foreign))},
		row{"that is told once", at(again, source(web0, foreign))},
		row{"a claim that was moved already does not count", at(moving0(api.MemberWaiting, build.EditMember(0, func(m *api.Member) {
			m.Claims[0].Moved = true
		})), source(web0, foreign))},
	)
}

// TestClaimThatLeavesDoesNotEndTheOperation: where its pod is not to be stopped by Drydock, or is stopped already, nothing is gained by that.
func TestClaimThatLeavesDoesNotEndTheOperation(t *testing.T) {
	logs := build.Claim("logs-web-0", "1Gi", build.Deleting())
	leaves := objects{logs, build.VolumeOf(logs)}
	with := func(phase api.MemberPhase, claims objects, pods objects) Input {
		return given(set(moving0(phase), build.Template("logs", "1Gi", "fixed")), journal(web0), claims, leaves, pods)
	}
	copying := append(source(web0), target(web0)...)
	check(t,
		row{"its member has no pod", with(api.MemberWaiting, copying, nil)},
		row{"its pod is ending", with(api.MemberWaiting, copying, pod(0, build.Deleting()))},
		row{"its member starts", with(api.MemberStarting, switched(web0), pod(0, build.UID("uid-new"), notReady()))},
		row{"its member is moved", with(api.MemberMoved, switched(web0), pod(0, build.UID("uid-new")))},
	)
}

// TestEndInRareSituations: as TestSwapInRareSituations.
func TestEndInRareSituations(t *testing.T) {
	record := givenUp(api.MemberKept, build.ReplacesSet, build.Due(-time.Second))
	late := given(set(record), journal(web0), bare(web0), pod(0))
	late.Rejected = "exceeded quota: team"
	finishing := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	successorOf := successor(web0, new0, "128Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-before"))
	marked := append(oldVolume(web0), successorOf, build.VolumeOf(successorOf, build.Retained(api.RoleTarget, web0)))
	before := build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web0), func(r *api.Resize) { r.Set.UID = "uid-before" }))
	letters := build.Annotation(api.DeadLettersAnnotation, "1")
	dead := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	check(t,
		row{"the API server refuses to give the set its old templates, and time is over: it keeps the new ones", late},
		row{"a claim that counts as one of the set that was replaced counts as one of the new set",
			given(set(finishing), objects{before}, marked, pod(0))},
		row{"the dead letters of an operation that has succeeded are forgotten", given(set(dead, letters), switchedAndTidied(), pod(0))},
		row{"those of one that has failed are kept", given(set(givenUp(api.MemberKept), letters), bare(web0), pod(0))},
	)
}

// switchedAndTidied is a claim on its new volume of which no operation has left anything.
func switchedAndTidied() objects {
	claim := build.Claim(web0, "128Mi", build.On(new0))
	return objects{claim, build.VolumeOf(claim)}
}

// TestSetThatIsOnlyGivenTemplatesHasNoJournalAtFirst: it is made before the set is touched.
func TestSetThatIsOnlyGivenTemplatesHasNoJournalAtFirst(t *testing.T) {
	templates := build.Operation(api.Moving, build.ReplacesSet, build.Genuine)
	ordered := moving0(api.MemberWaiting, build.ReplacesSet)
	kept := givenUp(api.MemberKept, build.ReplacesSet)
	order := build.Annotation(api.RecreateAnnotation, "{}")
	check(t,
		row{"the journal is made first", given(oldSet(templates), pod(0))},
		row{"a finalizer of another controller comes after the order was written: the order is withdrawn",
			given(set(kept, build.Finalizers("example.com/keep")), objects{build.With(journal(web0)[0].(*appsv1.ControllerRevision), order)},
				bare(web0), pod(0))},
		row{"the order stays while the gate is open", given(oldSet(ordered), journal(web0), source(web0), target(web0), pod(0))},
	)
}
