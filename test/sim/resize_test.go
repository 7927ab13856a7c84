// Package sim enumerates what can go wrong between any two writes. An operation runs on the real control plane; at
// write k the process dies, or the API server refuses, or somebody else interferes. Then new functions start with
// nothing but the objects and the tick, and the operation has to end well, with every claim whole.
package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// interference is what somebody else does at write k.
type interference func(w *kit.World)

// method is a way of a resize.
type method struct {
	name, request string
	set           func() setType
	// before is what happens in the world before the operation; nil for nothing.
	before func(w *kit.World)
}

var methods = []method{
	{name: "copy", request: "data=128Mi", set: func() setType { return newSet() }},
	{name: "expand", request: "data=128Mi", set: func() setType { return growing() }},
	{name: "expand and copy", request: "data=128Mi,logs=64Mi@" + kit.OtherClass, set: func() setType { return growing("logs") }},
	{name: "shrink", request: "data=32Mi", set: func() setType { return newSet() }},
	{name: "another class and access mode", request: "data=64Mi@" + kit.OtherClass + ":RWX", set: func() setType { return newSet() }},
	{name: "block", request: "data=128Mi", set: func() setType { return raw() }},
	{name: "rollback", request: "data=128Mi", set: func() setType { return newSet() }, before: resizedAndRegretted},
}

// resizedAndRegretted has the set resized, its document lost, and the old volume wanted back.
func resizedAndRegretted(w *kit.World) {
	drive := w.Drive(nil)
	done := w.Finish(drive, "web")
	w.Eventually("the owner goes on", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return paused(w)
	})
	w.Node.Recede("data-web-0", done.Claims[0].OldVolume)
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:%q}}}`, api.StatusAnnotation, api.RollbackAnnotation, done.Operation))
}

// raw has a claim that its pods use as a device.
func raw() setType {
	set := newSet()
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	set.Spec.Template.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	return set
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
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, what := range kit.Sabotages {
			for _, k := range schedules(t, n) {
				schedule(t, fmt.Sprintf("%s write %d", what, k), func(t *testing.T) { sabotaged(t, m, history{}, k, what) })
			}
		}
	})
}

func TestResizeSurvivesOthers(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		if m.before != nil {
			return // others would start pods on what is given up, of which the model does not tell what is the newest
		}
		for name, act := range m.interferences() {
			for _, k := range schedules(t, n) {
				schedule(t, fmt.Sprintf("%s after write %d", name, k), func(t *testing.T) { interfered(t, m, k, act) })
			}
		}
	})
}

// TestResizeWithEventsLost: no function hears from another, and one of them dies.
func TestResizeWithEventsLost(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("dies after write %d", k), func(t *testing.T) { sabotaged(t, m, history{drop: true}, k, kit.DieAfter) })
		}
	})
}

// TestResizeWithEventsTwiceAndInAnyOrder: every event comes twice, in an order of chance, and chance lets one write go wrong.
func TestResizeWithEventsTwiceAndInAnyOrder(t *testing.T) {
	everyMethod(t, func(t *testing.T, m method, n int) {
		for _, chance := range seeds(t, n) {
			dice := rand.New(rand.NewPCG(chance, 1))
			k, what := 1+dice.IntN(n), kit.Sabotages[dice.IntN(len(kit.Sabotages))]
			schedule(t, fmt.Sprintf("seed %d %s write %d", chance, what, k), func(t *testing.T) { sabotaged(t, m, history{shuffle: chance}, k, what) })
		}
	})
}

// history is what becomes of events.
type history struct {
	drop    bool
	shuffle uint64
}

func (h history) of(drive *kit.Drive) *kit.Drive {
	drive.Drop, drive.Shuffle = h.drop, h.shuffle
	return drive
}

func everyMethod(t *testing.T, try func(t *testing.T, m method, writes int)) {
	t.Parallel()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			try(t, m, counted(t, m.name, func() int { return cleanRun(t, m) }))
		})
	}
}

const ownerKind = "Prometheus"

var owner, _ = owners.BuiltIn().Find("monitoring.coreos.com", ownerKind)

// paused says what the owner is, if it is not what it was.
func paused(w *kit.World) string {
	now := w.Custom(owner, ownerKind, "main")
	if owner.Paused(now) || len(now.GetAnnotations()) != 1 {
		return fmt.Sprintf("the owner is %v", now.Object)
	}
	return ""
}

// cleanRun counts the writes of an operation that nobody disturbs.
func cleanRun(t *testing.T, m method) int {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	witness := witnessOf(w, saboteur, resizeTruths)
	drive := w.Drive(saboteur)
	judge(t, w, drive, w.Finish(drive, "web"), 1)
	witness.judge()
	writes := saboteur.Writes()
	t.Logf("%s: %d writes:\n%s", m.name, len(writes), strings.Join(writes, "\n"))
	return len(writes)
}

func newSet(more ...string) setType {
	set := kit.WorldSet("web", 1, "64Mi", append([]string{"data"}, more...)...)
	set.Spec.PersistentVolumeClaimRetentionPolicy = retention()
	return set
}

// newWorld has a set that an operator's resource controls, which is to be paused and resumed.
func newWorld(t *testing.T, m method) *kit.World {
	w := world(t)
	w.MayPause(owner.Operator)
	w.DefineKind(owner, ownerKind)
	resource := w.CreateCustom(owner, ownerKind, "main", map[string]any{"paused": false}, nil)
	w.CreateSet(m.set())
	w.OwnedBy("web", resource)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: m.request})
	if m.before != nil {
		m.before(w)
	}
	return w
}

func sabotaged(t *testing.T, m method, h history, k int, what kit.Sabotage) {
	w := newWorld(t, m)
	saboteur, fresh := &kit.Saboteur{At: k, What: what}, &kit.Saboteur{}
	witness, after := witnessOf(w, saboteur, resizeTruths), witnessOf(w, fresh, resizeTruths)
	drive := h.of(w.Drive(saboteur))
	w.Eventually("the sabotage has happened", func() string {
		_ = drive.Tick(context.Background()) // a dead process answers every call with an error
		if status := w.Status("web"); saboteur.Dead() || status != nil && status.Phase.Terminal() {
			return ""
		}
		return "it has not"
	})
	drive = h.of(w.Drive(fresh))
	judge(t, w, drive, w.Finish(drive, "web"), 1)
	witness.judge()
	after.judge()
}

func interfered(t *testing.T, m method, k int, act interference) {
	w := newWorld(t, m)
	saboteur := &kit.Saboteur{}
	done := false
	witness := witnessOf(w, saboteur, nil) // others may scale the set down, and with whenScaled Delete that costs its data
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
	witness.judge()
}

// judge checks the invariants at the end of an operation. What was left to do after its end is the tick's.
func judge(t *testing.T, w *kit.World, drive *kit.Drive, status *api.Resize, replicas ...int32) {
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
