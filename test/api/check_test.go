//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// application answers the member check of each pod. Every pod has an address of its own, and this process listens on
// all of them.
type application struct {
	port string

	mu     sync.Mutex
	behind map[string]bool // by the pod's address
	asked  map[string]int
}

// newApplication listens, and gives each running pod of set web an address.
func newApplication(t *testing.T, w *kit.World) *application {
	t.Helper()
	a := &application{behind: map[string]bool{}, asked: map[string]int{}}
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	must(t, err)
	_, a.port, err = net.SplitHostPort(listener.Addr().String())
	must(t, err)
	server := &http.Server{Handler: a} // of a test
	go func() { _ = server.Serve(listener) }()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { giveAddresses(ctx, w) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
		_ = server.Close()
	})
	return a
}

func addressOf(ordinal string) string { return "127.0.0.1" + ordinal }

// giveAddresses writes pod addresses like a kubelet, until the context ends.
func giveAddresses(ctx context.Context, w *kit.World) {
	pods := w.Kube.CoreV1().Pods(w.Namespace)
	for ctx.Err() == nil {
		watch, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for event := range watch.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Status.PodIP != "" || pod.Status.Phase != corev1.PodRunning {
				continue
			}
			if ordinal, of := strings.CutPrefix(pod.Name, "web-"); of {
				body := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, pod.UID, addressOf(ordinal),
					addressOf(ordinal))
				_, _ = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
			}
		}
	}
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	ip, _, _ := net.SplitHostPort(local.String())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[ip]++
	if a.behind[ip] {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// lag makes members fall behind or catch up.
func (a *application) lag(behind bool, ordinals ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ordinal := range ordinals {
		a.behind[addressOf(ordinal)] = behind
	}
}

// counts returns how often each member was asked.
func (a *application) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{}
	for _, ordinal := range []string{"0", "1", "2"} {
		counts[ordinal] = a.asked[addressOf(ordinal)]
	}
	return counts
}

// untilReason ticks until the record has the reason, and its message mentions every word.
func untilReason(t *testing.T, w *kit.World, drive *kit.Drive, reason api.Reason, words ...string) {
	t.Helper()
	w.Eventually(fmt.Sprintf("the record is %s and mentions %q", reason, words), func() string {
		if err := drive.Tick(t.Context()); err != nil {
			return err.Error()
		}
		if record := w.Status("web"); record == nil || record.Reason != reason || !mentions(record.Message, words...) {
			text, _ := json.Marshal(record)
			return string(text)
		}
		return ""
	})
}

func TestRollingResizeWaitsUntilMembersHaveCaughtUp(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	app := newApplication(t, w)
	w.CreateSet(kit.WorldSet("web", 3, "64Mi", "data"))
	pods := watchPods(t, w)
	app.lag(true, "0", "2")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(api.StrategyRolling),
		api.MemberCheckAnnotation: "http:" + app.port + "/caught-up"})
	drive := w.Drive(nil)

	untilReason(t, w, drive, api.GateClosed, "web-2", "web-0", "503")
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 1, "web-2": 1})
	if out, err := command(t, w, "status", "sts/web"); err != nil || !mentions(out, "web-0", "503") {
		t.Errorf("%q, %v", out, err)
	}
	if n := app.counts()["2"]; n > 0 {
		t.Errorf("the member that is to stop was asked %d times", n)
	}
	app.lag(false, "0")
	untilReason(t, w, drive, api.Behind, "web-2")
	if counts := app.counts(); counts["0"] < 3 || counts["1"] < 2 {
		t.Errorf("the others were asked %v times before the stop, want twice while they had caught up", counts)
	}
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 1, "web-2": 2})
	app.lag(false, "2")

	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Succeeded)
	if order := stopOrder(record); !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("the members were stopped in the order %v, want the highest first", order)
	}
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
	pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2, "web-2": 2})
	pods.expectReady(t, 2)
}

func TestMemberThatDoesNotCatchUpEndsResize(t *testing.T) {
	t.Parallel()
	for _, strategy := range []api.Strategy{api.StrategyRolling, api.StrategyWhole} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			app := newApplication(t, w)
			w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
			pods := watchPods(t, w)
			app.lag(true, "1")
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(strategy),
				api.MemberCheckAnnotation: "http:" + app.port})
			w.Settings.ReadyTimeout = 5 * time.Second

			record := w.Finish(w.Drive(nil), "web")
			expectPhase(t, record, api.Failed)
			if record.Reason != api.NotReady || !mentions(record.Message, "web-1", "503") {
				t.Errorf("%s: %s", record.Reason, record.Message)
			}
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
			starts := map[string]int{"web-0": 1, "web-1": 2}
			if strategy == api.StrategyWhole {
				starts["web-0"] = 2
				if n := app.counts()["0"]; n == 0 {
					t.Error("member 0 was not asked after its start")
				}
			}
			pods.expectStarts(t, starts)
		})
	}
}
