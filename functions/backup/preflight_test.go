package backup

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func TestForeignFinalizerKeepsTheSetRunning(t *testing.T) {
	const keeps = "claim data-web-0 has the finalizer example.com/keep: another controller keeps it. Find out which one and let it finish, " +
		"or remove the finalizer if that controller is gone"
	const message = "the set is not stopped yet: " + keeps
	done := func(edits ...func(*api.Status)) *api.Status {
		return operation(api.ClaimWarming, append([]func(*api.Status){beside("uid-web-0", "uid-web-1"), warmed(0, 1)}, edits...)...)
	}
	first := slices.Concat(users(), warming(0, build.Complete()), warming(1, build.Complete()))
	kept := held()
	kept[1] = build.With(kept[1].(*corev1.PersistentVolumeClaim), build.Finalizers("kubernetes.io/pvc-protection", "example.com/keep"))
	told := done(func(s *api.Status) { s.Reason, s.Message = api.ForeignFinalizer, message })
	recreate := func(s *api.Status) { s.Recreate = true }
	check(t, map[string]row{
		"a claim is held: the set is not stopped, and people are told why": {
			in:   world(set(done(), build.Replicas(3)), kept, targets(1), first),
			want: `do ForeignFinalizer: patch statefulsets web {+status}; event ForeignFinalizer "` + message + `"`,
			next: "Copying ForeignFinalizer" + dueIn("1h0m0s") + "; data-web-0 Warmed; data-web-1 Warmed",
		},
		"nothing new is no write": {
			in: world(set(told, build.Replicas(3)), kept, targets(1), first), want: "wait ForeignFinalizer (" + keeps + ")"},
		"a set that is created again is held": {
			in: world(running(done(recreate), build.Finalizers("example.com/keep")), first),
			want: `do ForeignFinalizer: patch statefulsets web {+status}; event ForeignFinalizer "the set is not stopped yet: StatefulSet web has the finalizer ` +
				`example.com/keep: another controller keeps it. Find out which one and let it finish, or remove the finalizer if that controller is gone"`,
			next: "Copying ForeignFinalizer" + dueIn("1h0m0s") + "; data-web-0 Warmed; data-web-1 Warmed",
		},
		"a set that stays may keep its finalizer": {
			in:   world(running(done(), build.Finalizers("example.com/keep")), first),
			want: "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}",
			next: "Copying Quiescing" + dueIn("1h0m0s") + "; data-web-0 Warmed; data-web-1 Warmed",
		},
	})
}
