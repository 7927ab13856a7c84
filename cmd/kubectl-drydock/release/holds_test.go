package release

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// held is what is known of set web of two members, with the pods that are held and the claims that there are.
func held(record *api.Resize, claims []*corev1.PersistentVolumeClaim, pods ...*corev1.Pod) Input {
	set := build.Set("web", build.Replicas(2), build.Label(api.ManagedLabel, "true"), build.Template("data", "64Mi", "fixed"))
	if record != nil {
		build.With(set, build.Status(record))
	}
	return Input{Namespace: set.Namespace, Name: "web", Set: set, Held: pods, Claims: claims}
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

func lock(ordinal int, options ...build.Option) *corev1.Pod {
	pod := resources.MakeLock(build.Set("web"), build.ID, ordinal, build.Settings())
	pod.UID, pod.ResourceVersion = types.UID("uid-lock"), "3"
	return build.With(pod, options...)
}

// TestHoldsAreReleasedOnlyToWholeClaims: without one of its claims a member would start on an empty volume.
func TestHoldsAreReleasedOnlyToWholeClaims(t *testing.T) {
	const optOut = "; patch statefulsets web {-label managed}"
	whole := []*corev1.PersistentVolumeClaim{build.Claim("data-web-0", "64Mi"), build.Claim("data-web-1", "64Mi")}
	leaving := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Deleting())}
	unbound := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Pending())}
	moving := build.Operation(api.Moving, build.Members(api.MemberFinalPass, "data-web-1"))
	journal := build.Journal(moving)
	gone := Input{Namespace: build.Namespace, Name: "web", Held: []*corev1.Pod{heldPod(build.Deleting())}}
	lost := gone
	lost.Journals = append(lost.Journals, journal)
	for name, row := range map[string]struct {
		in   Input
		want string
		left string
	}{
		"a hold that was left over": {held(nil, whole, heldPod(build.Deleting())), "patch pods web-1 {-finalizer hold}" +
			optOut, ""},
		"one on a pod that runs": {held(nil, whole, heldPod()), "patch pods web-1 {-finalizer hold, -label " +
			"operation, -operation}" + optOut, ""},
		"its claim is being replaced": {held(nil, leaving, heldPod(build.Deleting())),
			"patch statefulsets web {-label managed}", "claim data-web-1 is not bound"},
		"its claim has no volume": {held(nil, unbound, heldPod(build.Deleting())),
			"patch statefulsets web {-label managed}", "claim data-web-1 is not bound"},
		"its claim is gone": {held(nil, nil, heldPod(build.Deleting())), "patch statefulsets web {-label managed}",
			"claim data-web-1 is not bound"},
		"a lock":                        {held(nil, whole, lock(1)), "delete pods web-1" + optOut, "run the command again"},
		"a lock that is being deleted":  {held(nil, whole, lock(1, build.Deleting())), "patch pods web-1 {-finalizer hold}" + optOut, ""},
		"a lock, and its claim is gone": {held(nil, nil, lock(1)), "patch statefulsets web {-label managed}", "claim data-web-1 is not bound"},
		"a lock of a member that the set does not ask for": {held(nil, nil, lock(5, build.Deleting())), "patch pods web-5 {-finalizer hold}" +
			optOut, ""},
		"the set is gone":             {gone, "patch pods web-1 {-finalizer hold}", ""},
		"the set is gone in a resize": {lost, "", "1 pods are held for it"},
		"a resize runs":               {held(moving, whole, heldPod(build.Deleting())), "", "release them with --holds"},
		"a resize runs, and no function does": {withHolds(held(moving, whole, heldPod(build.Deleting()))), "patch pods web-1 {-finalizer hold}",
			"wait for its end"},
		"the same, in the swap": {withHolds(held(moving, leaving, heldPod(build.Deleting()))), "", "claim data-web-1 is not bound"},
	} {
		t.Run(name, func(t *testing.T) {
			actions, left := Decide(row.in)
			if got := words(actions); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if text := strings.Join(left, "; "); (row.left == "") != (text == "") || !strings.Contains(text, row.left) {
				t.Errorf("left %q, want %q", text, row.left)
			}
		})
	}
}
