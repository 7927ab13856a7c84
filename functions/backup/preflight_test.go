package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func TestForeignFinalizerKeepsTheSetRunning(t *testing.T) {
	const keeps = "claim data-web-0 has the finalizer example.com/keep: another controller keeps it. Find out which one and let it finish, " +
		"or remove the finalizer if that controller is gone"
	const message = "the set is not stopped yet: " + keeps
	done := func(edits ...func(*api.Resize)) *api.Resize {
		return copyOperation(api.ClaimWarming, append([]func(*api.Resize){beside("uid-web-0", "uid-web-1"), warmed(0, 1)}, edits...)...)
	}
	first := slices.Concat(users(), warming(0, build.Complete()), warming(1, build.Complete()))
	kept := held()
	kept[1] = build.With(kept[1].(*corev1.PersistentVolumeClaim), build.Finalizers("kubernetes.io/pvc-protection", "example.com/keep"))
	told := done(func(s *api.Resize) { s.Reason, s.Message = api.ForeignFinalizer, message })
	recreate := func(s *api.Resize) { s.Recreate = true }
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
	over := build.Stored(Decide(world(set(done(build.Due(-time.Second)), build.Replicas(3)), kept, targets(1), first)))
	if over == nil || over.Phase != api.RollingBack || !strings.Contains(over.Message, keeps) {
		t.Errorf("the time is over: %+v", over)
	}
}

func TestVolumesThatNoNodeReachesTogetherEndTheOperation(t *testing.T) {
	inZone := func(zone string) build.Option {
		return build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
		})
	}
	provisioned := func(zone string) Input {
		sources, made := held(), targets(1)
		sources[2] = build.With(sources[2].(*corev1.PersistentVolume), inZone("a"))
		fresh := build.VolumeOf(made[0].(*corev1.PersistentVolumeClaim), inZone(zone))
		return world(set(copyOperation(api.ClaimPending, justBegun), build.Replicas(3)), sources, made, objects{fresh}, users())
	}
	check(t, map[string]row{
		"the new volume is in another zone: nothing was stopped": {
			in: provisioned("b"), want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed at Copying" + dueIn("12m0s") + "; data-web-0 Pending; data-web-1 Pending",
		},
		"it is in the same zone": {
			in:   provisioned("a"),
			want: "do WarmCopyRunning: create jobs " + warm0 + "; create jobs " + warm1 + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Warming; data-web-1 Warming",
		},
	})
}
