// Package sim enumerates what can go wrong between any two writes. An operation runs on the real control plane; at
// write k the process dies, or the API server refuses, or somebody else interferes. Then new functions start with
// nothing but the objects and the tick, and the operation has to end well, with every claim whole.
package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

var (
	all  = flag.Bool("all", false, "try every schedule, not a sample")
	seed = flag.Uint64("seed", 0, "seed of the sample; 0 takes one from the clock")
	at   = flag.Int("at", 0, "try only this write")
)

// sampled is how many writes of each kind of schedule are tried without -all.
const sampled = 6

// interference is what somebody else does at write k.
type interference func(w *kit.World)

// method is a way of a resize.
type method struct {
	name, request string
	set           func() setType
	// sampled is how many writes of each kind of schedule are tried without -all.
	sampled int
}

var methods = []method{
	{"copy", "data=128Mi", func() setType { return newSet() }, 2},
	{"expand", "data=128Mi", func() setType { return growing() }, 2},
	{"expand and copy", "data=128Mi,logs=64Mi@" + kit.OtherClass, func() setType { return growing("logs") }, 1},
	{"shrink", "data=32Mi", func() setType { return newSet() }, 1},
	{"another class and access mode", "data=64Mi@" + kit.OtherClass + ":RWX", func() setType { return newSet() }, 1},
}

func growing(more ...string) setType {
	set := newSet(more...)
	for i := range set.Spec.VolumeClaimTemplates {
		set.Spec.VolumeClaimTemplates[i].Spec.StorageClassName = ptr.To(kit.GrowingClass)
	}
	return set
}

func (m method) interferences() map[string]interference {
	return map[string]interference{
		"somebody scales the set up": func(w *kit.World) { w.TryScale("web", 2) },
		"somebody scales the set up and down again": func(w *kit.World) {
			w.TryScale("web", 2)
			w.TryScale("web", 0)
		},
		"somebody deletes the set and applies it again": func(w *kit.World) { applyAgain(w, m.set()) },
	}
}

func applyAgain(w *kit.World, set setType) {
	_ = w.Kube.AppsV1().StatefulSets(w.Namespace).Delete(context.Background(), "web", metav1.DeleteOptions{})
	set.Namespace = w.Namespace
	for range 100 {
		if _, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set, metav1.CreateOptions{}); err == nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestResizeSurvivesEverySabotage(t *testing.T) {
	for _, m := range methods {
		n := cleanRun(t, m)
		for _, what := range kit.Sabotages {
			for _, k := range sampleOf(t, n, m.sampled) {
				t.Run(fmt.Sprintf("%s %s write %d", m.name, what, k), func(t *testing.T) {
					t.Parallel()
					sabotaged(t, m, k, what)
				})
			}
		}
	}
}

func TestResizeSurvivesOthers(t *testing.T) {
	for _, m := range methods {
		n := cleanRun(t, m)
		for name, act := range m.interferences() {
			for _, k := range sampleOf(t, n, m.sampled) {
				t.Run(fmt.Sprintf("%s %s after write %d", m.name, name, k), func(t *testing.T) {
					t.Parallel()
					interfered(t, m, k, act)
				})
			}
		}
	}
}

const ownerKind = "Prometheus"

var owner, _ = owners.BuiltIn().Find("monitoring.coreos.com", ownerKind)

// paused says what the owner is, if it is not what it was.
func paused(w *kit.World) string {
	now := w.Custom(owner, ownerKind, "main")
	if owner.Paused(now) || len(now.GetAnnotations()) > 0 {
		return fmt.Sprintf("the owner is %v", now.Object)
	}
	return ""
}

// cleanRun counts the writes of an operation that nobody disturbs.
func cleanRun(t *testing.T, m method) int {
	if n, known := counted[m.name]; known {
		return n
	}
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	drive := w.Drive(saboteur)
	judge(t, w, drive, w.Finish(drive, "web"), 1)
	writes := saboteur.Writes()
	t.Logf("%s: %d writes:\n%s", m.name, len(writes), strings.Join(writes, "\n"))
	counted[m.name] = len(writes)
	return len(writes)
}

// counted are the writes of a clean run, by method. The tests that count begin one after the other.
var counted = map[string]int{}

func newSet(more ...string) setType {
	set := kit.WorldSet("web", 1, "64Mi", append([]string{"data"}, more...)...)
	set.Spec.PersistentVolumeClaimRetentionPolicy = retention()
	return set
}

// newWorld has a set that an operator's resource controls, which is to be paused and resumed.
func newWorld(t *testing.T, m method) *kit.World {
	w := kit.NewWorld(t)
	w.MayPause(owner.Operator)
	w.DefineKind(owner, ownerKind)
	resource := w.CreateCustom(owner, ownerKind, "main", map[string]any{"paused": false}, nil)
	w.CreateSet(m.set())
	w.OwnedBy("web", resource)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: m.request})
	return w
}

// schedules are the writes to try: all of them, or a sample.
func schedules(t *testing.T, n int) []int { return sampleOf(t, n, sampled) }

func sampleOf(t *testing.T, n, size int) []int {
	if *at > 0 {
		return []int{*at}
	}
	ks := rand.New(rand.NewPCG(theSeed(), 0)).Perm(n)
	if !*all {
		ks = ks[:min(size, n)]
		t.Logf("a sample of %d of %d writes, -seed=%d", len(ks), n, theSeed())
	}
	for i := range ks {
		ks[i]++
	}
	slices.Sort(ks)
	return ks
}

func theSeed() uint64 {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	return *seed
}

func sabotaged(t *testing.T, m method, k int, what kit.Sabotage) {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{At: k, What: what}
	drive := w.Drive(saboteur)
	w.Eventually("the sabotage has happened", func() string {
		_ = drive.Tick(context.Background()) // a dead process answers every call with an error
		if status := w.Status("web"); saboteur.Dead() || status != nil && status.Phase.Terminal() {
			return ""
		}
		return "it has not"
	})
	drive = w.Drive(nil)
	judge(t, w, drive, w.Finish(drive, "web"), 1)
}

func interfered(t *testing.T, m method, k int, act interference) {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	done := false
	saboteur.OnWrite = func(string) {
		if !done && len(saboteur.Writes()) >= k {
			done = true
			act(w)
		}
	}
	drive := w.Drive(saboteur)
	w.Eventually("the operation ends and nothing is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status != nil && !status.Phase.Terminal() {
			return fmt.Sprintf("phase %s: %s", status.Phase, status.Message)
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	set := w.Set("web")
	if set == nil {
		t.Fatal("the set is gone")
	}
	judge(t, w, drive, w.Status("web"), 1, 2, 0)
}

// judge checks the invariants at the end of an operation. What was left to do after its end is the tick's.
func judge(t *testing.T, w *kit.World, drive *kit.Drive, status *api.Status, replicas ...int32) {
	t.Helper()
	if status != nil && status.Phase != api.Succeeded && !(len(replicas) > 1 && status.Phase == api.Failed) {
		t.Errorf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
	set := w.Set("web")
	if !slices.Contains(replicas, *set.Spec.Replicas) {
		t.Errorf("I4: %d replicas", *set.Spec.Replicas)
	}
	if set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled != "Delete" {
		t.Errorf("whenScaled is %s, it was Delete", set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled)
	}
	w.Eventually("the set is ready", func() string {
		if s := w.Set("web"); s.Status.ReadyReplicas != *s.Spec.Replicas {
			return "it is not"
		}
		return ""
	})
	var claims []string
	for _, t := range set.Spec.VolumeClaimTemplates {
		claims = append(claims, t.Name+"-web-0")
	}
	if *set.Spec.Replicas == 0 {
		claims = nil // scaled down when the operation was over, with whenScaled Delete: it was asked for
	}
	for _, problem := range w.Whole(claims...) {
		t.Error(problem)
	}
	w.Eventually("nothing is left behind (I9), and the owner is not paused (I5)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if left := w.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		return paused(w)
	})
}
