//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
