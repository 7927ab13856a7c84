//go:build cluster

package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// offlineWorld returns a new world with the ready set on storage that expands only detached volumes.
func offlineWorld(t *testing.T, set *appsv1.StatefulSet) (*kit.World, *kit.Drive) {
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpandOffline)
	w, drive := growingWorld(t, set)
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsDetached })
	return w, drive
}

// expectSameVolumes checks that each claim is unchanged except for its size, with the same volume and reclaim policy.
func expectSameVolumes(t *testing.T, w *kit.World, claims, size string, names ...string) {
	t.Helper()
	if now := w.ClaimUIDs(); now != claims {
		t.Errorf("claims %s, were %s", now, claims)
	}
	expectSize(t, w, size, names...)
	for _, name := range names {
		claim := w.Claim(name)
		if has := capacity(claim); has != size {
			t.Errorf("claim %s has %s", name, has)
		}
		if claim.Labels[api.OperationLabel] != "" {
			t.Errorf("claim %s is still linked", name)
		}
	}
	for _, v := range w.Volumes() {
		if v.Spec.PersistentVolumeReclaimPolicy != "Delete" || v.Labels[api.OperationLabel] != "" {
			t.Errorf("volume %s is %s, linked %q", v.Name, v.Spec.PersistentVolumeReclaimPolicy, v.Labels[api.OperationLabel])
		}
	}
}

// TestMembersAreHeldWhileTheirVolumesGrow: by default one member at a time is evicted once, and held until its volumes
// have grown.
func TestMembersAreHeldWhileTheirVolumesGrow(t *testing.T) {
	w, _ := offlineWorld(t, growingSet(3, "data"))
	claims, uid := w.ClaimUIDs(), w.Set("web").UID
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	writes := &kit.Saboteur{}
	status := w.Finish(w.Drive(writes), "web")
	expectPhase(t, status, api.Succeeded)
	if status.Strategy != api.StrategyRolling || len(status.Members) != 3 || len(status.Expansions) != 0 {
		t.Errorf("%s, %d members, %d expansions", status.Strategy, len(status.Members), len(status.Expansions))
	}
	var evicted []string
	for _, write := range writes.Writes() {
		if pod, eviction := strings.CutSuffix(write, "/eviction"); eviction {
			evicted = append(evicted, pod[strings.LastIndex(pod, "/")+1:])
		}
	}
	if got := slices.Compact(evicted); !slices.Equal(got, []string{"web-2", "web-1", "web-0"}) {
		t.Errorf("pods evicted: %v", got)
	}
	expectSameVolumes(t, w, claims, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
	if set := w.Set("web"); set.UID == uid || set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "128Mi" {
		t.Error("the set has not its new template")
	}
	t.Logf("%d API writes", len(writes.Writes()))
}

// TestMembersStopTogetherWhileTheirVolumesGrow: the strategy whole stops all members. The claim of a removed ordinal
// grows, too.
func TestMembersStopTogetherWhileTheirVolumesGrow(t *testing.T) {
	set := growingSet(3, "data")
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyWhole)
	w, drive := offlineWorld(t, set)
	w.Scale("web", 2)
	untilReady(w, drive, "web", 2)
	claims := w.ClaimUIDs()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Strategy != api.StrategyWhole || len(status.Members) != 3 {
		t.Errorf("%s, %d members", status.Strategy, len(status.Members))
	}
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	if now := w.ClaimUIDs(); now != claims {
		t.Errorf("claims %s, were %s", now, claims)
	}
	w.Scale("web", 3)
	untilReady(w, drive, "web", 3)
	expectSameVolumes(t, w, claims, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

// untilGrowing waits until a member is stopped and its claims grow.
func untilGrowing(t *testing.T, w *kit.World, drive *kit.Drive) *api.Resize {
	t.Helper()
	var status *api.Resize
	w.Eventually("a member's claims are to grow", func() string {
		ticks(t, drive, 1)
		if status = w.Status("web"); status == nil || !slices.ContainsFunc(status.Members,
			func(m api.Member) bool { return m.Phase == api.MemberGrowing }) {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	return status
}

// TestAbortedGrowthOfHeldMember: the pod runs again, its claim keeps its request, which the storage works on, and the set has its old
// template.
func TestAbortedGrowthOfHeldMember(t *testing.T) {
	w, drive := offlineWorld(t, growingSet(2, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	claims := w.ClaimUIDs()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilGrowing(t, w, drive)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	if status := w.Finish(drive, "web"); status.Phase != api.Failed || status.Reason != api.Aborted ||
		!strings.Contains(status.Message, "still grows claim data-web-1") {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	untilReady(w, drive, "web", 2)
	expectSize(t, w, "128Mi", "data-web-1")
	if now := w.ClaimUIDs(); now != claims {
		t.Errorf("claims %s, were %s", now, claims)
	}
	if is := w.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); is != "64Mi" {
		t.Errorf("the template asks for %s", is)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestInfeasibleGrowthOfHeldMember: no other member is stopped, and the message quotes the storage.
func TestInfeasibleGrowthOfHeldMember(t *testing.T) {
	w, drive := offlineWorld(t, growingSet(2, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.ExpandInfeasible || !strings.Contains(status.Message, "the pool has 80Mi left") {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	if m := status.Member(0); m.Phase != api.MemberKept || m.Stops != 0 {
		t.Errorf("member 0 is %s after %d stops", m.Phase, m.Stops)
	}
	untilReady(w, drive, "web", 2)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")

	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsDetached }) // the pool has become larger
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + " " + status.Message
		}
		return ""
	})
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestHeldMemberIsReleasedWhenAnotherIsLost: it is stopped once more when all members are ready.
func TestHeldMemberIsReleasedWhenAnotherIsLost(t *testing.T) {
	set := growingSet(2, "data")
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	w, drive := offlineWorld(t, set)
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	claims := w.ClaimUIDs()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilGrowing(t, w, drive)
	w.Node.Set(func(n *kit.Node) { n.HoldPods = true }) // the other member does not come back at once
	w.ForceDeletePod("web-0")
	w.Eventually("the member is given back", func() string {
		ticks(t, drive, 1)
		if m := w.Status("web").Member(1); m.Phase == api.MemberGrowing && m.Stops == 1 {
			return string(m.Phase)
		}
		return ""
	})
	w.Node.Set(func(n *kit.Node) { n.Growth, n.HoldPods = kit.GrowsDetached, false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if m := status.Member(1); m.Stops != 2 {
		t.Errorf("member 1 was stopped %d times", m.Stops)
	}
	expectSameVolumes(t, w, claims, "128Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestGrowthOfHeldMembersWaitsForApproval: before that no member stops and no claim is written.
func TestGrowthOfHeldMembersWaitsForApproval(t *testing.T) {
	set := growingSet(1, "data")
	set.Annotations[api.CutoverAnnotation] = api.CutoverApprove
	w, drive := offlineWorld(t, set)
	pods := podUIDs(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("it waits for the approval", func() string {
		ticks(t, drive, 1)
		if s := w.Status("web"); s == nil || s.Reason != api.GateClosed {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	expectSize(t, w, "64Mi", "data-web-0")
	if now := podUIDs(t, w); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	w.Annotate("web", map[string]string{api.ApproveAnnotation: w.Status("web").Operation})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}
