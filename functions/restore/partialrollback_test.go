package restore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

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
				move.NewVolume, move.Digest = "pv-new-"+move.Claim, ""
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
