package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/test/kit/build"
)

// TestMemberStartsOnNewVolumes: the pod is released, and restore waits for its replacement.
func TestMemberStartsOnNewVolumes(t *testing.T) {
	at := func(options ...func(*api.Resize)) objects {
		return append(setWith(movingOne(api.MemberStarting, append([]func(*api.Resize){build.MemberDue(0, time.Minute)}, options...)...)),
			journalOf(web0)...)
	}
	late := at(build.MemberDue(0, -time.Second))
	fresh := build.UID("uid-fresh")
	away := func(claim objects) objects { return append(claim[:1:1], claim[2:]...) }
	stray := build.Claim(web0, "128Mi", build.BoundTo("pv-x"), build.UID("uid-stray"))
	check(t,
		testCase{"the pod is held still: it is released", situation(at(), heldPodOf(0), swappedClaim(web0))},
		testCase{"the old pod goes", situation(at(), pod(0, build.Deleting()), swappedClaim(web0))},
		testCase{"there is no pod yet", situation(at(), swappedClaim(web0))},
		testCase{"the new pod is not ready", situation(at(), pod(0, fresh, notReady()), swappedClaim(web0))},
		testCase{"the new pod is ready", situation(at(), pod(0, fresh), swappedClaim(web0))},
		testCase{"it is ready after the deadline: the member is moved", situation(late, pod(0, fresh), swappedClaim(web0))},
		testCase{"it is not ready in time: the operation is given up, and the member stays on its new volumes",
			situation(late, pod(0, fresh, notReady()), swappedClaim(web0))},
		testCase{"the set was scaled down: restore waits for nothing",
			situation(append(objects{build.Set("web", build.Replicas(0), build.Template("data", "128Mi", "fixed"),
				build.Status(movingOne(api.MemberStarting)))}, journalOf(web0)...), swappedClaim(web0))},
		testCase{"the claim was deleted by hand before its pod started: it is created again on its new volume",
			situation(at(), away(swappedClaim(web0)))},
		testCase{"the claim was deleted by hand, and the volume is released",
			situation(at(), oldVolume(web0), copyVolume(web0, build.TakenBy(web0, "uid-successor"), build.Released()))},
		testCase{"the claim was deleted while the pod is held: the pod waits for it",
			situation(at(), heldPodOf(0), oldVolume(web0), copyVolume(web0, build.TakenBy(web0, "uid-successor"), build.Released()))},
		testCase{"the claim is being deleted while the pod is held: the pod waits for it", situation(at(), heldPodOf(0), oldVolume(web0),
			objects{successor(web0, new0, "128Mi", build.Deleting(), build.Finalizers(protection))}, copyVolume(web0,
				build.TakenBy(web0, "uid-successor")))},
		testCase{"the pod has started on another volume, since its claim was deleted: the operation is given up",
			situation(at(), pod(0, fresh), oldVolume(web0), copyVolume(web0),
				objects{stray, build.VolumeOf(stray)})},
	)
}

// TestMemberStaysHeldUntilAllClaimsAreBound: a member with several claims waits for all of them.
func TestMemberStaysHeldUntilAllClaimsAreBound(t *testing.T) {
	const logs0 = "logs-web-0"
	record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	pod0 := objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())}
	at := append(objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "128Mi", "fixed"),
		build.Status(record))},
		append(journalOf(web0, logs0), pod0...)...)
	reserved := copyVolume(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))
	check(t,
		testCase{"one claim is on its new volume, the other is being deleted",
			situation(at, swappedClaim(web0), frozenClaim(logs0, "example.com/keep"), reserved)},
		testCase{"one claim is on its new volume, the other is gone", situation(at, swappedClaim(web0), oldVolume(logs0), reserved)},
		testCase{"one claim is on its new volume, the other is not bound yet",
			situation(at, swappedClaim(web0), oldVolume(logs0), reserved, objects{build.Claim(logs0, "128Mi", build.BoundTo(""))})},
		testCase{"one claim is on its new volume, the other stays on its old one: the member is copied again with that one",
			situation(at, swappedClaim(web0), source(logs0))},
		testCase{"both are on their new volumes", situation(at, swappedClaim(web0), swappedClaim(logs0))},
		testCase{"the first claim is being deleted again, and the other is on its new volume",
			situation(at, frozenClaim(web0, "example.com/keep"), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
				swappedClaim(logs0))},
	)
}

// TestOperationEndsAfterLastMember shows what follows after a member is moved.
func TestOperationEndsAfterLastMember(t *testing.T) {
	two := func(phase api.MemberPhase) objects {
		record := build.Operation(api.Moving, build.Rolling, build.Members(phase, web0), build.Members(api.MemberMoved, web1))
		return append(setWith(record, build.Replicas(2)), journalOf(web0, web1)...)
	}
	finishing := func(options ...func(*api.Resize)) objects {
		return setWith(build.Operation(api.Finishing, append([]func(*api.Resize){build.Members(api.MemberMoved, web0),
			build.Due(time.Minute)},
			options...)...))
	}
	stuck := target(web0, build.Deleting(), build.Finalizers("example.com/keep"))
	pod0 := pod(0, build.UID("uid-fresh"))
	check(t,
		testCase{"the next one's turn has not come: backup begins with it",
			situation(two(api.MemberPending), pod(0), pod(1), source(web0), swappedClaim(web1))},
		testCase{"all members are moved: the removal of objects begins",
			situation(two(api.MemberMoved), pod(0), pod(1), swappedClaim(web0), swappedClaim(web1))},
		testCase{"claim and volume are released, and the old volume is retained",
			situation(finishing(), journalOf(web0), pod0, swappedClaim(web0))},
		testCase{"a mover and a temporary claim remain: they are deleted",
			situation(finishing(), journalOf(web0), pod0, swappedClaim(web0), target(web0)[:1], objects{build.Job(0, 1)})},
		testCase{"the temporary claim does not go", situation(finishing(), journalOf(web0), pod0, tidiedClaim(), stuck[:1])},
		testCase{"the temporary claim does not go in time: the rest is cleared later",
			with(situation(finishing(build.Due(-time.Second)), journalOf(web0), pod0, tidiedClaim(), stuck[:1]), longWait)},
		testCase{"the journal is removed last", situation(finishing(), journalOf(web0), pod0, tidiedClaim())},
		testCase{"nothing is left: the operation has succeeded", situation(finishing(), pod0, tidiedClaim())},
		testCase{"an abort comes too late", situation(setWith(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0)),
			build.Annotation(api.AbortAnnotation, "")), pod0, tidiedClaim())},
	)
}

// tidiedClaim is a claim on its new volume after everything was tidied.
func tidiedClaim() objects {
	claim := build.Claim(web0, "128Mi", build.BoundTo(new0), build.UID("uid-successor"))
	old := source(web0)[1].(*corev1.PersistentVolume)
	return objects{claim, build.VolumeOf(claim), build.With(old, build.Released(), build.Link(api.RoleOldVolume, web0),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-02T12:00:00Z"))}
}

// TestOrderedStartAllowsForMinReadySeconds: members that stopped together start one after the other. With OrderedReady, the controller
// starts the next one only when the one before is available, which takes minReadySeconds (kubernetes pkg/controller/statefulset,
// isRunningAndAvailable).
func TestOrderedStartAllowsForMinReadySeconds(t *testing.T) {
	record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, web1, web2))
	set := setWith(record, build.Replicas(3), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3600 }))
	w := &work{Input: situation(set), Work: moving.Work{Before: record, Record: record}}
	if deadline := w.phaseDeadline(&record.Members[2], api.MemberStarting); deadline.Sub(build.Now) < 2*time.Hour {
		t.Errorf("pod web-2 is created after two hours at the earliest, and given up after %s", deadline.Sub(build.Now))
	}
}
