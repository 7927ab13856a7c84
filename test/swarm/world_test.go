package swarm

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/apiserver"
)

// TestStoriesReachTheFunctions: the played Jobs, storage, operators and users let the functions finish what a story asks for.
func TestStoriesReachTheFunctions(t *testing.T) {
	all := stories(t)
	for name, row := range map[string]struct{ states, tale []string }{
		"resize-by-copy": {states: []string{"backup Resize Moving Preparing", "restore Resize Succeeded ResizeCompleted",
			"restore Rollback Moving Quiescing", "restore Rollback Succeeded ResizeCompleted"}},
		"storage-has-no-room": {states: []string{"detect-resize Resize Failed ExpandInfeasible",
			"detect-resize Resize Planned ClaimsExpanded", "restore Resize Succeeded ResizeCompleted"}},
		"two-operators": {states: []string{"idle-timeout Sleep Asleep FellAsleep", "idle-timeout Sleep Succeeded Awake"},
			tale: []string{"the operator sets web from 3 to 0", "the operator sets db from 3 to 2", "the operator sets db from 0 to 1"}},
		"autoscalers": {states: []string{"scale Scale Succeeded ScalingCompleted"},
			tale: []string{"an autoscaler scales scalers/pilot-web from 3 to 2", "an autoscaler scales statefulsets/web from 2 to 1"}},
		"copy-is-deleted":      {states: []string{"restore Resize Succeeded ResizeCompleted"}},
		"clock-of-user-steps":  {states: []string{"idle-timeout Sleep Asleep FellAsleep"}},
		"budget-delays-resize": {states: []string{"restore Resize Moving GateClosed", "restore Resize Succeeded ResizeCompleted"}},
		"count-applied-during-sleep": {states: []string{"idle-timeout Sleep Waking StartedByOthers",
			"idle-timeout Sleep Succeeded StartedByOthers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(t, loadPolicies(t), all[name])
			for _, state := range row.states {
				if r.covered[state] == 0 {
					t.Errorf("it does not reach %q:\n%s", state, strings.Join(r.tale, "\n"))
				}
			}
			for _, words := range row.tale {
				if !slices.ContainsFunc(r.tale, func(line string) bool { return strings.HasSuffix(line, words) }) {
					t.Errorf("it has no line %q:\n%s", words, strings.Join(r.tale, "\n"))
				}
			}
		})
	}
}

// TestUnreachedStates logs the states of records that tests of one function write, and that no world of this process has reached. It runs
// after the stories and the random runs.
func TestUnreachedStates(t *testing.T) {
	possible := statesOfGoldenFiles(t)
	unreached := slices.DeleteFunc(slices.Sorted(maps.Keys(possible)), isReached)
	t.Logf("%d of %d states were not reached:\n%s", len(unreached), len(possible), strings.Join(unreached, "\n"))
	if len(possible) < 100 {
		t.Errorf("the golden files have only %d states: their form has changed", len(possible))
	}
}

var (
	recordBefore = regexp.MustCompile(`^has: ([A-Z]\w+) ([A-Z]\w+)(?:;.* reason: (\w+))?`)
	recordChange = regexp.MustCompile(`^  (status|sleep|cleanup|scale)\.(kind|phase|reason): (?:.* -> )?(\w+)$`)
)

// statesOfGoldenFiles returns all states of records that functions write in golden files, in the words of covered.
func statesOfGoldenFiles(t *testing.T) map[string]bool {
	t.Helper()
	kinds := map[string]string{"status": "Resize", "sleep": "Sleep", "cleanup": "Cleanup", "scale": "Scale"}
	states := map[string]bool{}
	for _, function := range functions {
		files, err := filepath.Glob(filepath.Join("..", "..", "functions", strings.ReplaceAll(string(function), "-", ""), "testdata", "*.golden"))
		if err != nil || len(files) == 0 && function != api.Sift {
			t.Fatalf("%s has no golden files: %v", function, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for entry := range strings.SplitSeq(string(text), "\n## ") {
				var kind, phase, reason string
				written := false
				for line := range strings.Lines(entry) {
					line = strings.TrimSuffix(line, "\n")
					if was := recordBefore.FindStringSubmatch(line); was != nil {
						kind, phase, reason = was[1], was[2], was[3]
					}
					change := recordChange.FindStringSubmatch(line)
					switch {
					case change == nil || change[3] == "none":
						continue
					case change[2] == "kind":
						kind = change[3]
					case change[2] == "phase":
						phase = change[3]
					default:
						reason = change[3]
					}
					written = true
					if kinds[change[1]] != kind && kind != "Rollback" {
						kind = kinds[change[1]]
					}
				}
				if written && phase != "" && reason != "" {
					states[strings.Join([]string{string(function), kind, phase, reason}, " ")] = true
				}
			}
		}
	}
	return states
}

// chatty is a function that writes the annotation of an activity so many times a minute.
type chatty struct {
	client *kube.Client
	times  int
	last   time.Time
}

func (c *chatty) Handle(ctx context.Context, _ event.Event) (*event.Event, error) {
	if time.Since(c.last) < time.Minute {
		return nil, nil
	}
	c.last = time.Now()
	for n := range c.times {
		body := fmt.Appendf(nil, `[{"op":"add","path":"/metadata/annotations/drydock.dev~1last-activity","value":"%d"}]`, n)
		if _, err := c.client.Patch(ctx, plan.StatefulSets, namespace, "web", body); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// TestOraclesSeeLosses breaks a world in ways that functions must not, and once in each way that they may.
func TestOraclesSeeLosses(t *testing.T) {
	drydock := apiserver.Client{User: userOf(api.ScaleFunction), Manager: api.FieldManager}
	web, claim := in("statefulsets", "web"), claimName("web", 0)
	restart := func(w *World) {
		w.remove(person, in("pods", podName("web", 0)), metav1.DeleteOptions{})
		w.settle()
	}
	refused := func(times int) func(w *World) {
		return func(w *World) {
			w.pools[api.IdleTimeout] = []*worker{{Handler: &chatty{client: clientOf(w, userOf(api.IdleTimeout)), times: times}}}
			w.refused = refusal{resource: "scalers"}
			w.annotate("web", api.IdleTimeoutAnnotation, "30m")
			w.refusalsAreFewer()
		}
	}
	for name, row := range map[string]struct {
		do   func(w *World)
		ends string
	}{
		"an event is followed by a write without end": {refused(1000), "idle-timeout(web)#"},
		"few writes follow while others are refused":  {refused(2), ""},
		"many writes follow while others are refused": {refused(5), "while writes to scalers are refused, a function writes 50 times"},
		"a member restarts":                           {restart, ""},
		"a member restarts on an empty volume": {func(w *World) {
			w.erase(w.server.Get(in("pods", podName("web", 0))))
			restart(w)
		}, "the member of claim data-web-0 starts on an empty volume, and was always wanted"},
		"a member restarts on older data": {func(w *World) {
			old := w.contents.on[w.volumeOf(claim)]
			restart(w)
			w.contents.on[w.volumeOf(claim)] = old
			restart(w)
		}, "the member of claim data-web-0 starts on old data"},
		"a member restarts on older data that its user wants": {func(w *World) {
			old := w.contents.on[w.volumeOf(claim)]
			restart(w)
			w.contents.on[w.volumeOf(claim)], w.contents.oldest[claim] = old, old.version
			restart(w)
		}, ""},
		"the volume of a member goes": {func(w *World) {
			w.remove(storage, in2("persistentvolumes", w.volumeOf(claim)), metav1.DeleteOptions{})
		}, "the only volume with the data of claim data-web-0 is deleted, and its member was always wanted"},
		"the volume of a member goes, and there is a copy": {func(w *World) {
			w.contents.on["copy"] = w.contents.on[w.volumeOf(claim)]
			w.remove(storage, in2("persistentvolumes", w.volumeOf(claim)), metav1.DeleteOptions{})
		}, ""},
		"a second pod writes to a volume": {func(w *World) {
			w.create(person, "pods", map[string]any{"metadata": map[string]any{"name": "other", "namespace": namespace}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "x"}},
				"volumes":    []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": claim}}}}})
			w.settle()
		}, "pods other and web-0 write to one volume"},
		"a set stops without a word": {func(w *World) {
			w.change(drydock, web, "", func(o *apiserver.Object) { put(o, int64(0), "spec", "replicas") })
			w.calm(3)
		}, "set web is at zero, its users want 3, and nothing says why"},
		"a set sleeps": {func(w *World) {
			w.annotate("web", api.PausedAnnotation, "true")
			w.calm(3)
		}, ""},
		"a user pauses the Scaler of a set": {func(w *World) {
			w.pauseScaler("web", true)
			w.calm(4)
		}, ""},
		"an owner is paused without a word": {func(w *World) {
			w.change(drydock, w.operators[0].key, "", func(o *apiserver.Object) { put(o, "true", "metadata", "labels", pauseLabel) })
			w.calm(3)
		}, "the owner is map"},
		"the copy of a resize is left": {func(w *World) {
			w.change(apiserver.Client{User: userOf(api.Backup)}, in("persistentvolumeclaims", claim), "", func(o *apiserver.Object) {
				put(o, "x", "metadata", "labels", api.OperationLabel)
			})
			w.nothingIsLeft()
		}, "after the retention, an object of an operation is left: persistentvolumeclaims without a link"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shape := Shape{Sets: 1, Scaler: strings.Contains(name, "Scaler")}
				if strings.Contains(name, "owner") {
					shape.Owner = keepsSizes
				}
				w := newWorld(shape, loadPolicies(t))
				if row.do(w); !strings.HasPrefix(w.problem, row.ends) || row.ends == "" && w.problem != "" {
					t.Errorf("it ends with %q, want %q\n%s", w.problem, row.ends, strings.Join(w.tale, "\n"))
				}
			})
		})
	}
}

// TestOneWriteIsDelayed: everything works until a process sends the chosen write, which then arrives later.
func TestOneWriteIsDelayed(t *testing.T) {
	for delays, held := range map[int]int{0: 0, 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(Shape{Sets: 1}, loadPolicies(t))
			w.annotate("web", api.PausedAnnotation, "true")
			w.late.n = delays
			w.rush()
			if len(w.held) != held || w.isAsleep("web") != (held == 0) {
				t.Errorf("with delay %d, %d processes are held:\n%s", delays, len(w.held), strings.Join(w.tale, "\n"))
			}
			for len(w.held) > 0 {
				w.release(0, false)
			}
			if !w.isAsleep("web") {
				t.Errorf("the write does not arrive:\n%s", strings.Join(w.tale, "\n"))
			}
		})
	}
}

// TestWritesToOneSetAreRefused: the set does not fall asleep, the other one does, and the oracle sees that the other one does not wake.
func TestWritesToOneSetAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		set    string
		others bool
		paused any
		ends   string
	}{
		"the other set wakes":         {"web", false, nil, ""},
		"the other set does not wake": {"web", false, "true", "set db is at zero, its users want 3, and only writes to web are refused"},
		"only one set can be written, and does not wake": {"db", true, "true",
			"set db is at zero, its users want 3, and only writes to web are refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(Shape{Sets: 2}, loadPolicies(t))
				w.refuseSets(row.set, row.others)
				w.annotate("web", api.PausedAnnotation, "true")
				w.annotate("db", api.PausedAnnotation, "true")
				w.calm(3)
				if w.isAsleep("web") || !w.isAsleep("db") {
					t.Errorf("web is asleep: %t, db is asleep: %t", w.isAsleep("web"), w.isAsleep("db"))
				}
				w.annotate("db", api.PausedAnnotation, row.paused)
				if w.judgeOthers(); w.problem != row.ends {
					t.Errorf("it ends with %q, want %q\n%s", w.problem, row.ends, strings.Join(w.tale, "\n"))
				}
			})
		})
	}
}
