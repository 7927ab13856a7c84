//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

func TestWholeResizeOfOneMemberStopsItOnce(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	pods := watchPods(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})

	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
	pods.expectStarts(t, map[string]int{"web-0": 2})
}

func TestWholeResizeStopsAllMembersTogether(t *testing.T) {
	t.Parallel()
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := kit.WorldSet("web", 3, "64Mi", "data")
			set.Spec.PodManagementPolicy = policy
			w.CreateSet(set)
			pods := watchPods(t, w)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi@" + kit.OtherClass})

			expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
			claims := []string{"data-web-0", "data-web-1", "data-web-2"}
			expectSize(t, w, "128Mi", claims...)
			expectClass(t, w, kit.OtherClass, claims...)
			expectWhole(t, w, "web", 3, claims...)
			pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2, "web-2": 2})
		})
	}
}

func TestRollingResizeStopsOneMemberAtATime(t *testing.T) {
	t.Parallel()
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := kit.WorldSet("web", 3, "64Mi", "data")
			set.Spec.PodManagementPolicy = policy
			before := w.CreateSet(set)
			pods := watchPods(t, w)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi@" + kit.OtherClass,
				api.StrategyAnnotation: string(api.StrategyRolling)})

			record := w.Finish(w.Drive(nil), "web")
			expectPhase(t, record, api.Succeeded)
			claims := []string{"data-web-0", "data-web-1", "data-web-2"}
			expectSize(t, w, "128Mi", claims...)
			expectClass(t, w, kit.OtherClass, claims...)
			expectWhole(t, w, "web", 3, claims...)
			pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2, "web-2": 2})
			pods.expectReady(t, 2)
			if w.Set("web").UID == before.UID {
				t.Error("the set was not created again with its new templates")
			}
			if order := stopOrder(record); !slices.Equal(order, []int{2, 1, 0}) {
				t.Errorf("the members were stopped in the order %v, want the highest first", order)
			}
		})
	}
}

func TestRollingResizeMovesPrimaryLast(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 3, "64Mi", "data"))
	w.LabelPod("web-2", "role", "primary")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(api.StrategyRolling),
		api.PrimaryAnnotation: "role=primary"})

	record := w.Finish(w.Drive(nil), "web")
	expectPhase(t, record, api.Succeeded)
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
	if order := stopOrder(record); !slices.Equal(order, []int{1, 0, 2}) {
		t.Errorf("the members were stopped in the order %v, want the primary, 2, last", order)
	}
}

// TestMemberThatBecomesPrimaryMovesLast: the primary changes while the first member waits for its stop.
func TestMemberThatBecomesPrimaryMovesLast(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 3, "64Mi", "data"))
	w.LabelPod("web-0", "role", "primary")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(api.StrategyRolling),
		api.PrimaryAnnotation: "role=primary", api.CutoverAnnotation: api.CutoverApprove})
	drive := w.Drive(nil)
	untilWaiting(w, drive, 2)
	w.LabelPod("web-0", "role", "replica")
	w.LabelPod("web-2", "role", "primary")
	untilWaiting(w, drive, 1)
	w.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverAuto})
	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Succeeded)
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
	if order := stopOrder(record); !slices.Equal(order, []int{1, 0, 2}) {
		t.Errorf("the members were stopped in the order %v, want the primary, 2, last", order)
	}
}

// TestMemberReturnsToAnotherNode: the member's node is cordoned while the member is stopped, as in a drain. The mover
// keeps the volumes attached to the old node. It must not block the member.
func TestMemberReturnsToAnotherNode(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	before := nodeOf(t, w, "web-0")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.CutoverAnnotation: api.CutoverApprove})
	drive := w.Drive(nil)
	untilWaiting(w, drive, 0)
	w.UseMachine()
	w.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverAuto})

	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
	if after := nodeOf(t, w, "web-0"); after == before {
		t.Errorf("the member is on node %s still", after)
	}
}

func nodeOf(t *testing.T, w *kit.World, pod string) string {
	t.Helper()
	is, err := w.Kube.CoreV1().Pods(w.Namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return is.Spec.NodeName
}

// untilWaiting ticks until the member's copy has converged and its stop waits for an approval.
func untilWaiting(w *kit.World, drive *kit.Drive, ordinal int) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("member %d waits", ordinal), func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		status := w.Status("web")
		if status == nil || status.Member(ordinal) == nil || status.Member(ordinal).Phase != api.MemberWaiting {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
}

// stopOrder returns the ordinals in the order in which the members were stopped.
func stopOrder(record *api.Resize) []int {
	members := slices.Clone(record.Members)
	slices.SortStableFunc(members, func(a, b api.Member) int { return a.HeldAt.Compare(b.HeldAt.Time) })
	var order []int
	for _, m := range members {
		order = append(order, m.Ordinal)
	}
	return order
}

func expectClass(t *testing.T, w *kit.World, class string, claims ...string) {
	t.Helper()
	for _, name := range claims {
		if is := *w.Claim(name).Spec.StorageClassName; is != class {
			t.Errorf("claim %s is of class %s, want %s", name, is, class)
		}
	}
}

// podWatch records every state of the set's pods.
type podWatch struct {
	mu    sync.Mutex
	pods  map[string]*corev1.Pod
	seen  map[string]map[string]bool // UIDs of pods by name
	least int                        // the lowest number of ready pods so far
}

// watchPods starts to watch the pods of set web.
func watchPods(t *testing.T, w *kit.World) *podWatch {
	t.Helper()
	p := &podWatch{pods: map[string]*corev1.Pod{}, seen: map[string]map[string]bool{}}
	list, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		p.see(&list.Items[i], false)
	}
	p.least = p.ready()
	watch, err := w.Kube.CoreV1().Pods(w.Namespace).Watch(context.Background(),
		metav1.ListOptions{LabelSelector: "app=web", ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	go func() {
		for e := range watch.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				p.see(pod, e.Type == "DELETED")
			}
		}
	}()
	return p
}

func (p *podWatch) see(pod *corev1.Pod, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[pod.Name] = pod
	if gone {
		delete(p.pods, pod.Name)
	}
	if p.seen[pod.Name] == nil {
		p.seen[pod.Name] = map[string]bool{}
	}
	p.seen[pod.Name][string(pod.UID)] = true
	p.least = min(p.least, p.ready())
}

func (p *podWatch) ready() int {
	n := 0
	for _, pod := range p.pods {
		if statefulset.PodReady(pod) && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// expectStarts checks the number of pods with each name so far.
func (p *podWatch) expectStarts(t *testing.T, want map[string]int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	is := map[string]int{}
	for name, uids := range p.seen {
		is[name] = len(uids)
	}
	if fmt.Sprint(is) != fmt.Sprint(want) {
		t.Errorf("pods of each name: %v, want %v", is, want)
	}
}

// expectReady checks that at least that many pods were ready at all times.
func (p *podWatch) expectReady(t *testing.T, least int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.least < least {
		t.Errorf("only %d pods were ready at some moment, want at least %d", p.least, least)
	}
}

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
