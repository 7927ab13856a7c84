package release

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// held returns the facts about set web with two members: its record, the claims, and the pods with a hold.
func held(record *api.Resize, claims []*corev1.PersistentVolumeClaim, pods ...*corev1.Pod) Input {
	set := build.Set("web", build.Replicas(2), build.Label(api.ManagedLabel, "true"), build.Template("data", "64Mi", "fixed"))
	if record != nil {
		build.With(set, build.Status(record))
	}
	return Input{Now: build.Now, Namespace: set.Namespace, Name: "web", Set: set, Held: pods, Claims: claims}
}

func withHolds(in Input) Input {
	in.Holds = true
	return in
}

func heldPod(options ...build.Option) *corev1.Pod {
	ordinal := 1
	link := api.Link{Operation: build.ID, Role: api.RoleHeld, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: &ordinal}
	pod := build.PodOf("web", 1, "data")
	return build.With(pod, append([]build.Option{build.Finalizers(api.HoldFinalizer), build.LinkOf(link)}, options...)...)
}

func lockPod(ordinal int, options ...build.Option) *corev1.Pod {
	pod := resources.MakeLock(build.Set("web"), build.ID, ordinal, build.Settings())
	pod.UID, pod.ResourceVersion = types.UID("uid-lock"), "3"
	return build.With(pod, options...)
}

// TestHoldIsReleasedOnlyIfTheMembersClaimsAreBound: without one of its claims, a member would start on an empty volume.
func TestHoldIsReleasedOnlyIfTheMembersClaimsAreBound(t *testing.T) {
	bound := []*corev1.PersistentVolumeClaim{build.Claim("data-web-0", "64Mi"), build.Claim("data-web-1", "64Mi")}
	terminating := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Deleting())}
	pending := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Pending())}
	moving := build.Operation(api.Moving, build.Members(api.MemberFinalPass, "data-web-1"))
	noSet := Input{Namespace: build.Namespace, Name: "web", Held: []*corev1.Pod{heldPod(build.Deleting())}}
	noSetInResize := noSet
	noSetInResize.Journals = append(noSetInResize.Journals, build.Journal(moving))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
	}{
		{"the held pod has ended, and its operation too", held(nil, bound, heldPod(build.Deleting()))},
		{"the held pod runs", held(nil, bound, heldPod())},
		{"the member's claim is terminating", held(nil, terminating, heldPod(build.Deleting()))},
		{"the member's claim has no volume", held(nil, pending, heldPod(build.Deleting()))},
		{"the member's claim does not exist", held(nil, nil, heldPod(build.Deleting()))},
		{"a lock pod", held(nil, bound, lockPod(1))},
		{"a lock pod is terminating", held(nil, bound, lockPod(1, build.Deleting()))},
		{"a lock pod, and the member's claim does not exist", held(nil, nil, lockPod(1))},
		{"a lock pod of an ordinal beyond the replicas", held(nil, nil, lockPod(5, build.Deleting()))},
		{"the set is gone", noSet},
		{"the set is gone during a resize", noSetInResize},
		{"a resize runs", held(moving, bound, heldPod(build.Deleting()))},
		{"a resize runs, with --holds", withHolds(held(moving, bound, heldPod(build.Deleting())))},
		{"a resize swaps the member's claim, with --holds", withHolds(held(moving, terminating, heldPod(build.Deleting())))},
	} {
		file.Entry(t, row.situation, decision(row.in))
	}
}
