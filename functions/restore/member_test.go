package restore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestMemberStartsOnItsNewVolumes: the pod is released, and its replacement is waited for.
func TestMemberStartsOnItsNewVolumes(t *testing.T) {
	at := func(options ...func(*api.Resize)) objects {
		return append(set(moving0(api.MemberStarting, append([]func(*api.Resize){build.MemberDue(0, time.Minute)}, options...)...)),
			journal(web0)...)
	}
	late := at(build.MemberDue(0, -time.Second))
	fresh := build.UID("uid-fresh")
	away := func(claim objects) objects { return append(claim[:1:1], claim[2:]...) }
	stray := build.Claim(web0, "128Mi", build.On("pv-x"), build.UID("uid-stray"))
	check(t,
		row{"the pod is held still: it is released", given(at(), held(0), switched(web0))},
		row{"the old pod goes", given(at(), pod(0, build.Deleting()), switched(web0))},
		row{"there is no pod yet", given(at(), switched(web0))},
		row{"the new pod is not ready", given(at(), pod(0, fresh, notReady()), switched(web0))},
		row{"the new pod is ready", given(at(), pod(0, fresh), switched(web0))},
		row{"it is ready after the deadline: that counts", given(late, pod(0, fresh), switched(web0))},
		row{"it is not ready in time: the operation is given up, the member stays on its new volumes",
			given(late, pod(0, fresh, notReady()), switched(web0))},
		row{"the set was scaled down meanwhile: nothing is waited for",
			given(append(objects{build.Set("web", build.Replicas(0), build.Template("data", "128Mi", "fixed"),
				build.Status(moving0(api.MemberStarting)))}, journal(web0)...), switched(web0))},
		row{"the claim was deleted by hand before its pod started: it is created again on its new volume",
			given(at(), away(switched(web0)))},
		row{"the claim was deleted by hand, and the volume is released",
			given(at(), oldVolume(web0), copied(web0, build.TakenBy(web0, "uid-successor"), build.Released()))},
		row{"the claim was deleted while the pod is held: the pod waits for it",
			given(at(), held(0), oldVolume(web0), copied(web0, build.TakenBy(web0, "uid-successor"), build.Released()))},
		row{"the claim is being deleted while the pod is held: the pod waits for it", given(at(), held(0), oldVolume(web0),
			objects{successor(web0, new0, "128Mi", build.Deleting(), build.Finalizers(protection))}, copied(web0,
				build.TakenBy(web0, "uid-successor")))},
		row{"the pod has started on another volume, since its claim was deleted: the operation is given up",
			given(at(), pod(0, fresh), oldVolume(web0), copied(web0),
				objects{stray, build.VolumeOf(stray)})},
	)
}

// TestMemberIsNotReleasedWithoutItsClaims: a member with several claims waits for all of them.
func TestMemberIsNotReleasedWithoutItsClaims(t *testing.T) {
	const logs0 = "logs-web-0"
	record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	pod0 := objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())}
	at := append(objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "128Mi", "fixed"),
		build.Status(record))},
		append(journal(web0, logs0), pod0...)...)
	reserved := copied(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))
	check(t,
		row{"one claim is on its new volume, the other is being deleted",
			given(at, switched(web0), doomed(logs0, "example.com/keep"), reserved)},
		row{"one claim is on its new volume, the other is gone", given(at, switched(web0), oldVolume(logs0), reserved)},
		row{"one claim is on its new volume, the other is not bound yet",
			given(at, switched(web0), oldVolume(logs0), reserved, objects{build.Claim(logs0, "128Mi", build.On(""))})},
		row{"one claim is on its new volume, the other stays on its old one: the member is copied again with that one",
			given(at, switched(web0), source(logs0))},
		row{"both are on their new volumes", given(at, switched(web0), switched(logs0))},
		row{"the first claim is being deleted again, and the other is on its new volume",
			given(at, doomed(web0, "example.com/keep"), copied(web0, build.Reserved(manifest(web0, new0, "128Mi"))), switched(logs0))},
	)
}

// TestNextMemberAndEnd: what is done when a member is moved.
func TestNextMemberAndEnd(t *testing.T) {
	two := func(phase api.MemberPhase) objects {
		record := build.Operation(api.Moving, build.Rolling, build.Members(phase, web0), build.Members(api.MemberMoved, web1))
		return append(set(record, build.Replicas(2)), journal(web0, web1)...)
	}
	finishing := func(options ...func(*api.Resize)) objects {
		return set(build.Operation(api.Finishing, append([]func(*api.Resize){build.Members(api.MemberMoved, web0), build.Due(time.Minute)},
			options...)...))
	}
	stuck := target(web0, build.Deleting(), build.Finalizers("example.com/keep"))
	pod0 := pod(0, build.UID("uid-fresh"))
	check(t,
		row{"the next one's turn has not come: backup begins with it",
			given(two(api.MemberPending), pod(0), pod(1), source(web0), switched(web1))},
		row{"all are moved: it is cleared up", given(two(api.MemberMoved), pod(0), pod(1), switched(web0), switched(web1))},
		row{"claim and volume are released, the old volume gets its window", given(finishing(), journal(web0), pod0, switched(web0))},
		row{"a mover and a temporary claim are left: they go",
			given(finishing(), journal(web0), pod0, switched(web0), target(web0)[:1], objects{build.Job(0, 1)})},
		row{"the temporary claim does not go", given(finishing(), journal(web0), pod0, tidied(), stuck[:1])},
		row{"the temporary claim does not go in time: the rest is cleared later",
			but(given(finishing(build.Due(-time.Second)), journal(web0), pod0, tidied(), stuck[:1]), waited)},
		row{"the journal goes last", given(finishing(), journal(web0), pod0, tidied())},
		row{"nothing is left: the operation has succeeded", given(finishing(), pod0, tidied())},
		row{"an abort comes too late", given(set(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0)),
			build.Annotation(api.AbortAnnotation, "")), pod0, tidied())},
	)
}

// tidied is a claim on its new volume, of which nothing is left to do.
func tidied() objects {
	claim := build.Claim(web0, "128Mi", build.On(new0), build.UID("uid-successor"))
	old := source(web0)[1].(*corev1.PersistentVolume)
	return objects{claim, build.VolumeOf(claim), build.With(old, build.Released(), build.Link(api.RoleRetired, web0),
		build.Annotation(api.RetainedUntilAnnotation, "2026-03-02T12:00:00Z"))}
}
