//go:build cluster

package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestRequestsInRow: a set has one operation at a time. An operation keeps its request until its end. Only the latest
// of the later requests follows.
// Invariants: I3.
func TestRequestsInRow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{growsNow, plannedNow, copyNow, waitNow, finalNow, verifiedNow, startNow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			drive := r.reach()
			first := r.Status("web").Operation
			for _, request := range []string{"data=160Mi", "data=192Mi"} {
				r.Annotate("web", map[string]string{api.ResizeAnnotation: request})
				_ = drive.Tick(context.Background())
				if status := r.Status("web"); status.Operation != first || status.Request != "data=128Mi" {
					t.Errorf("asked for %s, the operation is %s for %s", request, status.Operation, status.Request)
				}
			}
			r.stop.release(r.World)
			r.until(drive, "the first request has come to its end", func(status *api.Resize) bool {
				return status.Operation != first || status.Phase.Terminal()
			})
			r.until(drive, "the last request has come to its end", func(status *api.Resize) bool {
				return status.Request == "data=192Mi" && status.Phase.Terminal()
			})
			status := r.Status("web")
			expectPhase(t, status, api.Succeeded)
			if status.Attempt != 2 {
				t.Errorf("attempt %d", status.Attempt)
			}
			expectSize(t, r.World, "192Mi", r.claim...)
			r.expectGivenBack(t, drive)
		})
	}
}

// until ticks until the resize meets the condition.
func (r *resized) until(drive *kit.Drive, what string, there func(*api.Resize) bool) {
	r.T.Helper()
	r.Eventually(what, func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := r.Status("web"); !there(status) {
			return status.Request + ": " + describe(status)
		}
		return ""
	})
}

// TestSleepAndResizeAtOnce: the first one runs, the other one waits for its end, and the set has its replicas in
// between.
// Invariants: I3.
func TestSleepAndResizeAtOnce(t *testing.T) {
	t.Parallel()
	pause := map[string]string{api.PausedAnnotation: "true"}
	resize := map[string]string{api.ResizeAnnotation: "data=128Mi"}
	for name, asks := range map[string][]map[string]string{
		"asked for together":                  {{api.PausedAnnotation: "true", api.ResizeAnnotation: "data=128Mi"}},
		"the resize when the sleep begins":    {pause, resize},
		"the sleep when the resize has begun": {resize, pause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
			drive := w.Drive(nil)
			for _, annotations := range asks {
				w.Annotate("web", annotations)
				_ = drive.Tick(context.Background())
				if sleep, status := w.Sleep("web"), w.Status("web"); sleep.Active() && status.Active() {
					t.Errorf("both are under way: %s; %s", sleep.Phase, describe(status))
				}
			}
			w.UntilSleep(drive, "web", api.Asleep)
			if status := w.Status("web"); status.Active() {
				t.Errorf("it sleeps, and is resized: %s", describe(status))
			}
			w.PatchSet("web", `{"metadata":{"annotations":{"`+api.PausedAnnotation+`":null}}}`)
			w.UntilSleep(drive, "web", api.Succeeded)
			expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
			expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
		})
	}
}

// TestCleanupWaitsForResize: the set is scaled down during the first pass. The removed member is cleaned up after the
// resize, not while the set is at zero.
// Invariants: I3.
func TestCleanupWaitsForResize(t *testing.T) {
	w, drive := cleanedWorld(t, 3)
	w.Node.Set(func(n *kit.Node) { n.GuardClaims = false }) // the resize replaces claims
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 3)
	w.Scale("web", 2)
	w.Eventually("the replica is gone", func() string {
		_ = drive.Tick(context.Background())
		if w.Set("web").Status.Replicas != 2 {
			return "it is there"
		}
		return ""
	})
	if order := w.Node.CleanedPods(); len(order) > 0 {
		t.Errorf("cleaned up: %v", order)
	}
	holdFirstPass(w, false)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if order := w.Node.CleanedPods(); len(order) > 0 {
		t.Errorf("cleaned up: %v", order)
	}
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "data-web-2")
}

// TestTwoProcessesAtOnce: two processes of every function run at the same time, as in a rollout of Drydock. Each step
// is made once.
// Invariants: I7.
func TestTwoProcessesAtOnce(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{"copy": "data=128Mi", "shrink": "data=32Mi", "grow": "data=128Mi"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := kit.WorldSet("web", 2, "64Mi", "data")
			if name == "grow" {
				set = growingSet(2, "data")
			}
			w.CreateSet(set)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: request})
			first, second := &kit.Saboteur{}, &kit.Saboteur{}
			drives := []*kit.Drive{w.Drive(first), w.Drive(second)}
			if err := untilOver(w, drives); err != nil {
				t.Error(err)
			}
			status := w.Finish(drives[0], "web")
			expectPhase(t, status, api.Succeeded)
			for _, m := range status.Members {
				if m.Attempt != 1 {
					t.Errorf("member %d has had %d movers", m.Ordinal, m.Attempt)
				}
			}
			if status.Attempt != 1 {
				t.Errorf("attempt %d", status.Attempt)
			}
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
			n := len(first.Writes()) + len(second.Writes())
			ticks(t, drives[0], 2)
			ticks(t, drives[1], 2)
			if now := append(first.Writes(), second.Writes()...); len(now) != n {
				t.Errorf("written after the end: %v", now)
			}
			want := 4 // the old volumes are retained
			if name == "grow" {
				want = 2
			}
			if volumes := w.Volumes(); len(volumes) != want {
				t.Errorf("%d volumes, want %d", len(volumes), want)
			}
		})
	}
}

// TestLostClaimIsBoundAgain: another client reserves the volume of a claim that is already bound to it, as with stale
// data. Kubernetes then marks the claim as lost and never binds it again.
func TestLostClaimIsBoundAgain(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	lost := false
	drive := w.Drive(&kit.Saboteur{OnWrite: func(write string) {
		if lost || write != "POST /api/v1/namespaces/"+w.Namespace+"/persistentvolumeclaims" || w.Claim("data-web-0") == nil ||
			w.Status("web").Members[0].Phase != api.MemberSwapping {
			return
		}
		lost = true
		awaitClaim(w, "data-web-0", corev1.ClaimBound)
		volume := w.Claim("data-web-0").Spec.VolumeName
		if _, err := w.Kube.CoreV1().PersistentVolumes().Patch(context.Background(), volume, types.JSONPatchType,
			[]byte(`[{"op":"remove","path":"/spec/claimRef/uid"}]`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		awaitClaim(w, "data-web-0", corev1.ClaimLost)
	}})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=32Mi"})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if !lost {
		t.Error("no claim was lost")
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// awaitClaim waits until the claim has the phase.
func awaitClaim(w *kit.World, name string, phase corev1.PersistentVolumeClaimPhase) {
	w.Eventually(fmt.Sprintf("claim %s is %s", name, phase), func() string {
		if c := w.Claim(name); c == nil || c.Status.Phase != phase {
			return "it is not"
		}
		return ""
	})
}

// untilOver ticks with every drive at once until the operation has ended. A conflict between them is no error, but a
// drive without progress is.
func untilOver(w *kit.World, drives []*kit.Drive) error {
	var all sync.WaitGroup
	failed := make([]error, len(drives))
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	for i, drive := range drives {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				if failed[i] = drive.Tick(ctx); ctx.Err() != nil {
					failed[i] = errors.Join(ctx.Err(), failed[i])
					return
				}
				set, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					continue // it is being created again
				}
				if status, err := api.LoadResize(set); err == nil && status != nil && status.Phase.Terminal() {
					failed[i] = nil
					return
				}
			}
		}()
	}
	all.Wait()
	return errors.Join(failed...)
}
