package restore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const before = "ba9876543210" // the operation that is rolled back

// returning is the volume of a claim that comes back, in its role.
func returning(name string, options ...build.Option) objects {
	v := build.VolumeOf(build.Claim(name, "128Mi", build.On("pv-new-"+name), build.UID("uid-before")), build.Released(),
		build.LinkOf(api.Link{Operation: id, Role: api.RoleReturning, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
			Claim: name, Before: before}),
		build.Annotation(api.ReclaimPolicyAnnotation, "Delete"),
		build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}))
	return objects{build.With(v, options...)}
}

// rolledBack is a claim that has its volume back.
func rolledBack(name string) objects {
	return append(append(oldVolume(name), successor(name, "pv-new-"+name, "128Mi")), returning(name, build.TakenBy(name, "uid-successor"))...)
}

// rollingBack is the record of a rollback, of which nothing has been copied.
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
	return build.Operation(phase, append(options, build.Rollback(before), named)...)
}

// TestNoPodStartsOnHalfOfARollback: data of one time and a log of another make a database that is broken.
func TestNoPodStartsOnHalfOfARollback(t *testing.T) {
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
		row{"one claim is being deleted: the other is, too, before it is replaced",
			given(at(api.Moving), stopped, doomed(web0), reserved, source(logs0), returning(logs0))},
		row{"and the hold is lost", given(at(api.Moving), replaced, doomed(web0), reserved, source(logs0), returning(logs0))},
		row{"and the rollback is given up", given(at(api.Reverting), stopped, doomed(web0), reserved, source(logs0), returning(logs0))},
		row{"both are being deleted", given(at(api.Moving), stopped, doomed(web0), reserved, doomed(logs0),
			returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi"))))},
		row{"one claim has its old volume back, and the rollback is given up", given(at(api.Reverting), stopped, rolledBack(web0), source(logs0),
			returning(logs0))},
		row{"both have, and it is given up", given(at(api.Reverting), stopped, rolledBack(web0), rolledBack(logs0))},
		row{"it is given up before anything was deleted", given(at(api.Reverting), stopped, source(web0), returning(web0), source(logs0),
			returning(logs0))},
		row{"the volume of the other one is gone", given(at(api.Moving), stopped, doomed(web0), reserved, source(logs0))},
	)
}

// TestMembersAreRolledBackTogether where all of them stop together: as shards of one time.
func TestMembersAreRolledBackTogether(t *testing.T) {
	at := func(phase api.Phase, options ...func(*api.Resize)) objects {
		record := rollingBack(phase, options...)
		return append(set(record, build.Replicas(2)), build.Journal(record))
	}
	stopped := build.EditMember(1, func(m *api.Member) { m.Stopped = m.Held })
	both := build.Members(api.MemberSwapping, web0, web1)
	claims := append(append(append(source(web0), returning(web0)...), source(web1)...), returning(web1)...)
	half := append(append(source(web0), returning(web0)...), rolledBack(web1)...)
	check(t,
		row{"one has stopped, the other not", given(at(api.Moving, build.Members(api.MemberStopping, web0, web1), stopped), ending(0), held(1),
			claims)},
		row{"the other has, too", given(at(api.Moving, build.Members(api.MemberStopping, web0, web1), stopped), held(0), held(1), claims)},
		row{"one is stopped, the other one waits to be stopped again",
			given(at(api.Moving, build.Members(api.MemberWaiting, web0), build.Members(api.MemberStopping, web1), stopped), pod(0), held(1),
				claims)},
		row{"it is given up before a claim was deleted", given(at(api.Reverting, both), held(0), held(1), claims)},
		row{"one has its old volume back, and it is given up: the other one follows", given(at(api.Reverting, both), held(0), held(1), half)},
		row{"one has its old volume back, and the other one waits to be stopped again",
			given(at(api.Moving, build.Members(api.MemberWaiting, web0), build.Members(api.MemberSwapping, web1)), pod(0), held(1), half)},
		row{"one has its old volume back, and the pod of the other was started by others",
			given(at(api.Moving, both), pod(0, build.UID("uid-other")), held(1), half)},
	)
}
