//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// hookTemplate is the pod template of a hook.
const hookTemplate = "spec: {containers: [{name: sh, image: 'dev.local/any:1', args: [\"$(DRYDOCK_POD)\"]}]}"

// hookPlayer plays the containers of hooks: each ends as soon as it runs.
type hookPlayer struct {
	mu sync.Mutex
	// fails are the hooks, as "before web-1", that exit with 3.
	fails map[string]bool
	// ran are the ended hooks with the number of the member's starts until then, as "before web-1 of start 1".
	ran  []string
	jobs map[string]map[string]bool // UIDs by name
}

// playHooks plays hooks until the test ends.
func playHooks(t *testing.T, w *kit.World, members *podWatch, fails ...string) *hookPlayer {
	t.Helper()
	p := &hookPlayer{fails: map[string]bool{}, jobs: map[string]map[string]bool{}}
	for _, hook := range fails {
		p.fails[hook] = true
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch, err := w.Kube.CoreV1().Pods(w.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
	must(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil &&
				len(pod.Spec.Containers[0].Env) > 0 {
				p.end(ctx, w, members, pod)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return p
}

// end ends the hook's container.
func (p *hookPlayer) end(ctx context.Context, w *kit.World, members *podWatch, pod *corev1.Pod) {
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	hook := env["DRYDOCK_HOOK"] + " " + env["DRYDOCK_POD"]
	p.mu.Lock()
	fails := p.fails[hook]
	p.mu.Unlock()
	code, phase, words := int32(0), corev1.PodSucceeded, ""
	if fails {
		code, phase, words = 3, corev1.PodFailed, "no other\x1b member\ncan be primary"
	}
	pod = pod.DeepCopy()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sh",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: words, FinishedAt: kit.SettledEnd()}}}}
	if _, err := w.Kube.CoreV1().Pods(w.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return // the watch delivers the pod again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ran = append(p.ran, fmt.Sprintf("%s of start %d", hook, members.starts(env["DRYDOCK_POD"])))
	job := pod.Labels[batchv1.JobNameLabel]
	if p.jobs[job] == nil {
		p.jobs[job] = map[string]bool{}
	}
	p.jobs[job][pod.Labels[batchv1.ControllerUidLabel]] = true
}

// succeed lets all later hooks succeed.
func (p *hookPlayer) succeed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = nil
}

// starts returns the number of pods with the name so far.
func (p *podWatch) starts(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen[name])
}

func (p *hookPlayer) expect(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.ran, want) {
		t.Errorf("hooks that ran:\n%s\nwant\n%s", strings.Join(p.ran, "\n"), strings.Join(want, "\n"))
	}
	for name, uids := range p.jobs {
		if len(uids) != 1 {
			t.Errorf("there have been %d Jobs %s", len(uids), name)
		}
	}
}

// hookedSet requests a resize of a set with two members and both hooks.
func hookedSet(t *testing.T, strategy api.Strategy) (*kit.World, *podWatch) {
	t.Helper()
	w := kit.NewWorld(t)
	w.Settings.HookTimeout = time.Minute
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	pods := watchPods(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(strategy),
		api.BeforeMemberAnnotation: hookTemplate, api.AfterMemberAnnotation: hookTemplate})
	return w, pods
}

func TestHooksRunAroundEachMember(t *testing.T) {
	t.Parallel()
	w, pods := hookedSet(t, api.StrategyRolling)
	hooks := playHooks(t, w, pods)
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	hooks.expect(t, "before web-1 of start 1", "after web-1 of start 2", "before web-0 of start 1", "after web-0 of start 2")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2})
}

func TestHooksOfAllMembersRunBeforeAllStop(t *testing.T) {
	t.Parallel()
	w, pods := hookedSet(t, api.StrategyWhole)
	hooks := playHooks(t, w, pods)
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	hooks.mu.Lock()
	ran := slices.Clone(hooks.ran)
	hooks.mu.Unlock()
	slices.Sort(ran)
	if want := []string{"after web-0 of start 2", "after web-1 of start 2", "before web-0 of start 1",
		"before web-1 of start 1"}; !slices.Equal(ran, want) {
		t.Errorf("hooks that ran: %v, want %v", ran, want)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2})
}

func TestFailedHookBeforeMemberKeepsItRunning(t *testing.T) {
	t.Parallel()
	w, pods := hookedSet(t, api.StrategyRolling)
	hooks := playHooks(t, w, pods, "before web-1")
	drive := w.Drive(nil)
	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Failed)
	if record.Reason != api.HookFailed || !mentions(record.Message, "before-member", "pod web-1", "container sh", " 3",
		"no other member can be primary") {
		t.Errorf("%s: %q", record.Reason, record.Message)
	}
	expectSize(t, w, "64Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 1})
	hooks.succeed()
	w.Retry("web")
	w.Eventually("the retry has begun", func() string { return ticked(t, w, drive, record.Operation) })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	hooks.expect(t, "before web-1 of start 1",
		"before web-1 of start 1", "after web-1 of start 2", "before web-0 of start 1", "after web-0 of start 2")
}

func TestFailedHookAfterMemberStopsNoOther(t *testing.T) {
	t.Parallel()
	w, pods := hookedSet(t, api.StrategyRolling)
	hooks := playHooks(t, w, pods, "after web-1")
	drive := w.Drive(nil)
	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Failed)
	if record.Reason != api.HookFailed || !mentions(record.Message, "after-member", "pod web-1") {
		t.Errorf("%s: %q", record.Reason, record.Message)
	}
	expectSize(t, w, "64Mi", "data-web-0")
	expectSize(t, w, "128Mi", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 2})
	hooks.succeed()
	w.Retry("web")
	w.Eventually("the retry has begun", func() string { return ticked(t, w, drive, record.Operation) })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	hooks.expect(t, "before web-1 of start 1", "after web-1 of start 2", "before web-0 of start 1", "after web-0 of start 2")
}

// ticked ticks, and returns a text while the set still has the operation.
func ticked(t *testing.T, w *kit.World, drive *kit.Drive, operation string) string {
	t.Helper()
	if err := drive.Tick(t.Context()); err != nil {
		return err.Error()
	}
	if w.Status("web").Operation == operation {
		return "it is the same operation"
	}
	return ""
}

// TestHookRunsOnceWhenProcessDies: the process dies around the creation of the hook's Job.
func TestHookRunsOnceWhenProcessDies(t *testing.T) {
	t.Parallel()
	for _, what := range []kit.Sabotage{kit.DieBefore, kit.DieAfter, kit.TimesOut} {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			w, pods := hookedSet(t, api.StrategyRolling)
			hooks := playHooks(t, w, pods)
			sabotage := &kit.Saboteur{Failure: what}
			sabotage.OnWrite = func(description string) {
				if record := w.Status("web"); strings.HasPrefix(description, "PATCH") && sabotage.At == 0 && record != nil &&
					record.Reason == api.HookRunning {
					sabotage.At = len(sabotage.Writes()) + 1 // the creation of the Job follows
				}
			}
			drive := w.Drive(sabotage)
			w.Eventually("the process dies, or its write times out", func() string {
				_ = drive.Tick(t.Context())
				if sabotage.At == 0 || len(sabotage.Writes()) < sabotage.At {
					return fmt.Sprintf("%d writes", len(sabotage.Writes()))
				}
				return ""
			})
			if writes := sabotage.Writes(); !strings.HasSuffix(writes[sabotage.At-1], "/jobs") {
				t.Fatalf("it was another write: %s", writes[sabotage.At-1])
			}
			expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
			hooks.expect(t, "before web-1 of start 1", "after web-1 of start 2", "before web-0 of start 1", "after web-0 of start 2")
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
			pods.expectStarts(t, map[string]int{"web-0": 2, "web-1": 2})
		})
	}
}

func TestHookWithAccessToItsNodeIsRefused(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi",
		api.BeforeMemberAnnotation: "spec: {hostPID: true, containers: [{name: sh, image: 'dev.local/any:1'}]}"})
	record := w.Finish(w.Drive(nil), "web")
	expectPhase(t, record, api.Refused)
	if record.Reason != api.NodeAccessDenied || !mentions(record.Message, api.BeforeMemberAnnotation, "hostPID") {
		t.Errorf("%s: %s", record.Reason, record.Message)
	}
}

// TestHookThatNamespaceForbidsIsRefused: the API server is asked before anything is touched.
func TestHookThatNamespaceForbidsIsRefused(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.LabelNamespace("pod-security.kubernetes.io/enforce", "baseline")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi",
		api.AfterMemberAnnotation: "spec: {containers: [{name: sh, image: 'dev.local/any:1', ports: [{containerPort: 80, hostPort: 80}]}]}"})
	record := w.Finish(w.Drive(nil), "web")
	expectPhase(t, record, api.Refused)
	if record.Reason != api.Rejected || !mentions(record.Message, api.AfterMemberAnnotation, "hostPort") {
		t.Errorf("%s: %s", record.Reason, record.Message)
	}
}

func TestHookWithoutEndFailsResize(t *testing.T) {
	t.Parallel()
	w, pods := hookedSet(t, api.StrategyWhole)
	w.Settings.HookTimeout = 3 * time.Second
	record := w.Finish(w.Drive(nil), "web")
	expectPhase(t, record, api.Failed)
	if record.Reason != api.HookFailed || !strings.Contains(record.Message,
		"DeadlineExceeded Job was active longer than specified deadline") {
		t.Errorf("%s: %s", record.Reason, record.Message)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	pods.expectStarts(t, map[string]int{"web-0": 1, "web-1": 1})
}
