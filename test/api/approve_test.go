//go:build cluster

package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// TestMembersStopAfterApproval: kubectl drydock status shows the missing approval, and approve gives it.
func TestMembersStopAfterApproval(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	pods := watchPods(t, w)
	w.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverApprove, api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("both members wait to be stopped", func() string {
		if err := drive.Tick(t.Context()); err != nil {
			return err.Error()
		}
		record := w.Status("web")
		if record == nil || len(record.Members) != 2 || slices.ContainsFunc(record.Members,
			func(m api.Member) bool { return m.Phase != api.MemberWaiting }) {
			return fmt.Sprintf("record %+v", record)
		}
		if left := movers(t, w); len(left) > 0 {
			return "a mover waits for the approval: " + left[0].Name
		}
		return ""
	})
	out, err := command(t, w, "status", "sts/web")
	if err != nil || !mentions(out, string(api.GateClosed), "approve -n "+w.Namespace+" sts/web") ||
		strings.Count(out, string(api.MemberWaiting)) != 2 {
		t.Errorf("%q, %v", out, err)
	}
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 1})
	if out, err := command(t, w, "approve", "sts/web"); err != nil || !strings.Contains(out, w.Status("web").Operation) {
		t.Fatalf("%q, %v", out, err)
	}

	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2})
	if _, stays := w.Set("web").Annotations[api.ApproveAnnotation]; stays {
		t.Error("the approval outlives its operation")
	}
	out, err = command(t, w, "status", "sts/web")
	if err != nil || strings.Count(out, string(api.MemberMoved)) != 2 || !mentions(out, string(api.Succeeded)) {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := command(t, w, "approve", "sts/web"); err == nil {
		t.Errorf("%q; there is nothing to approve any more", out)
	}
}

// TestReleaseKeepsHoldOfMemberWithoutClaim: no function runs any more. A member whose claim is being swapped stays
// held, because it would start on an empty volume.
func TestReleaseKeepsHoldOfMemberWithoutClaim(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	for ordinal := range 2 {
		holdByHand(t, w, ordinal)
	}
	w.PatchClaim("data-web-1", fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, api.FreezeFinalizer))
	w.DeleteClaim("data-web-1")
	was := podUID(t, w, "web-0")

	out, err := command(t, w, "release", "--yes")
	if err == nil || !mentions(out, "pod web-1", "claim data-web-1") {
		t.Errorf("%q, %v", out, err)
	}
	if held := w.HeldPods(); !slices.Equal(held, []string{"web-1"}) {
		t.Errorf("held are %v", held)
	}
	w.Eventually("web-0 is started again", func() string {
		if is := podUID(t, w, "web-0"); is == "" || is == was {
			return "it is not"
		}
		return ""
	})
	w.PatchClaim("data-web-1", `{"metadata":{"finalizers":null}}`)
	w.ReleasePod("web-1")
}

// holdByHand holds and stops a member of the set, like a resize.
func holdByHand(t *testing.T, w *kit.World, ordinal int) {
	t.Helper()
	pods, name := w.Kube.CoreV1().Pods(w.Namespace), fmt.Sprintf("web-%d", ordinal)
	set := w.Set("web")
	link := api.Link{Operation: "0123456789ab", Role: api.RoleHeld, Namespace: w.Namespace, Set: api.SetRef{Name: "web", UID: set.UID},
		Member: &ordinal}
	body := fmt.Sprintf(`{"metadata":{"finalizers":[%q],"labels":{%q:%q},"annotations":{%q:%q}}}`, api.HoldFinalizer,
		api.OperationLabel, link.Operation, api.OperationAnnotation, link.Encode())
	_, err := pods.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	must(t, err)
	must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.Eventually(name+" has ended and is held", func() string {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if pod.Status.Phase == corev1.PodRunning || !statefulset.Held(pod) {
			return string(pod.Status.Phase)
		}
		return ""
	})
}

func podUID(t *testing.T, w *kit.World, name string) types.UID {
	t.Helper()
	pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return pod.UID
}
