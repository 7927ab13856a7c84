//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// rowOf returns the registry row of the kind.
func rowOf(t *testing.T, group, kind string) owners.Row {
	t.Helper()
	row, ok := owners.BuiltIn().Find(group, kind)
	if !ok {
		t.Fatalf("no row about %s of %s", kind, group)
	}
	return row
}

// content returns the parts of a custom resource that users and operators see.
func content(o *unstructured.Unstructured) map[string]any {
	return map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "spec": o.Object["spec"]}
}

// TestEveryOwnerIsPausedAndResumed resizes a set of each row's first kind. The owner is paused while the set is
// stopped, and is unchanged afterwards.
// Invariants: I5.
func TestEveryOwnerIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	kit.NewWorld(t).GrantPause(allowed()...)
	for _, row := range owners.BuiltIn() {
		if !row.Supports(owners.ByPause) || row.Unverified || row.Operator == denied {
			continue
		}
		t.Run(row.Operator+"/"+row.Kinds[0].Name+"."+row.Group, func(t *testing.T) {
			t.Parallel()
			w, kind := kit.NewWorld(t), row.Kinds[0].Name
			w.DefineKind(row, kind)
			owner := w.CreateCustom(row, kind, "main", map[string]any{"replicas": int64(1)}, nil)
			expectPausedMeanwhile(t, w, row, kind, owner)
		})
	}
}

// isStopping reports whether a moving member has not been released yet.
func isStopping(record *api.Resize) bool {
	return record != nil && record.Phase == api.Moving && slices.ContainsFunc(record.Members, func(m api.Member) bool {
		return m.Phase != api.MemberStarting && m.Phase != api.MemberMoved
	})
}

// expectPausedMeanwhile resizes a set of the custom resource, and checks that the resource is paused during the move.
func expectPausedMeanwhile(t *testing.T, w *kit.World, row owners.Row, kind string, controller *unstructured.Unstructured) {
	t.Helper()
	before := content(w.Custom(row, kind, "main"))
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", controller)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive, paused := w.Drive(nil), 0
	drive.OnEvent = func(e event.Event) {
		// The record is read before and after the owner, because an event may be delivered late.
		began, isPaused, ended := w.Status("web"), row.Paused(w.Custom(row, kind, "main")), w.Status("web")
		switch {
		case ended == nil && isPaused:
			t.Error("the owner is paused before the preflight is over")
		case began != nil && began.Phase == api.Moving && isStopping(ended):
			if paused++; !isPaused {
				t.Errorf("%s, the members are moved, and the owner is not paused", e.Type())
			}
		}
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if paused < 2 { // when it is paused, when the copies have converged, and when they are verified
		t.Errorf("the owner was checked %d times, want 2 or more", paused)
	}
	expectResumed(t, w, drive, row, kind, before)
	if got := *w.Set("web").Spec.Replicas; got != 1 {
		t.Errorf("%d replicas, want 1", got)
	}
}

// expectResumed ticks until the owner is unchanged and nothing is left (I9).
func expectResumed(t *testing.T, w *kit.World, drive *kit.Drive, row owners.Row, kind string, before map[string]any) {
	t.Helper()
	w.Eventually("the owner is resumed (I5)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if left := w.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		return cmp.Diff(before, content(w.Custom(row, kind, "main")))
	})
}

// TestTopOwnerIsPaused: Percona's operator writes the lower resource and would revert a pause there.
// Invariants: I5.
func TestTopOwnerIsPaused(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.GrantPause("percona-pg")
	top, low := rowOf(t, "pgv2.percona.com", "PerconaPGCluster"), rowOf(t, "upstream.pgv2.percona.com", "PostgresCluster")
	w.DefineKind(top, "PerconaPGCluster")
	w.DefineKind(low, "PostgresCluster")
	controller := w.CreateCustom(top, "PerconaPGCluster", "main", map[string]any{}, nil)
	expectPausedMeanwhile(t, w, top, "PerconaPGCluster", w.CreateCustom(low, "PostgresCluster", "inner", map[string]any{}, controller))
	if got := w.Custom(low, "PostgresCluster", "inner"); got.GetGeneration() != 1 || len(got.GetAnnotations()) != 0 {
		t.Errorf("the lower owner was written to: %v", got.Object)
	}
}

// ownedWorld returns a world with a requested resize of a set that a Prometheus controls.
func ownedWorld(t *testing.T) (*kit.World, owners.Row) {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "monitoring.coreos.com", "Prometheus")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "Prometheus")
	owner := w.CreateCustom(row, "Prometheus", "main", map[string]any{"paused": false}, nil)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", owner)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	return w, row
}

// pausedNow ticks until the set's owner is paused, and no further.
func pausedNow(t *testing.T, w *kit.World) *kit.Drive {
	t.Helper()
	drive := w.Drive(nil)
	holdFirstPass(w, true) // else a tick may run to the end
	defer holdFirstPass(w, false)
	w.Eventually("the operation is under way", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status == nil || status.Phase != api.Moving {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	return drive
}

// TestPauseOfUserStays before, during and after the resize.
// Invariants: I5.
func TestPauseOfUserStays(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, true, "spec", "paused")
	})
	before := w.Custom(row, "Prometheus", "main")
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	if after := w.Custom(row, "Prometheus", "main"); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was written to: %v", after.Object)
	}
}

// TestSetDeletedDuringPauseResumesOwner: only the records show the operation then.
// Invariants: I5.
func TestSetDeletedDuringPauseResumesOwner(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestOwnerDeletedDuringResize: there is nothing to resume, and the operation continues.
// Invariants: I5.
func TestOwnerDeletedDuringResize(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	drive := pausedNow(t, w)
	w.OrphanCustom(row, "Prometheus", "main")
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("nothing is left (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
}

// TestAbortResumesOwner after the operation was reverted.
// Invariants: I5.
func TestAbortResumesOwner(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "yes"})
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestResumeByUserStays: the owner is resumed after the resize.
// Invariants: I5.
func TestResumeByUserStays(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, false, "spec", "paused")
	})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// denied is an operator without a grant for pause-owner, until a test grants it.
const denied = "tidb"

// TestOwnerWithoutRightsStopsNothing: the message says how to grant the rights. With them, the refused sleep begins by
// itself, and a retry of the failed resize succeeds.
// Invariants: I5, I10.
func TestOwnerWithoutRightsStopsNothing(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "pingcap.com", "TidbCluster")
	w.RevokePause(denied)
	w.DefineKind(row, "TidbCluster")
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", w.CreateCustom(row, "TidbCluster", "main", map[string]any{}, nil))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	idleSet(w, "cache", 2, nil)
	w.SetController("cache", w.Custom(row, "TidbCluster", "main"))
	drive := w.Drive(nil)
	w.Expect(http.StatusForbidden, api.PauseOwner, "it has no rights to this kind")
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	expectRefusedOnce(t, w, drive, "cache")
	if status.Reason != api.OwnerNotPausable || !strings.Contains(status.Message, "kubectl drydock rbac --owners "+denied) ||
		wasStopped(status) {
		t.Errorf("%s: %s (stopped %v)", status.Reason, status.Message, wasStopped(status))
	}
	w.GrantPause(denied)
	before := content(w.Custom(row, "TidbCluster", "main"))
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return fmt.Sprintf("%s: %s", status.Phase, status.Message)
		}
		return ""
	})
	w.UntilSleep(drive, "cache", api.Asleep) // without a retry
	sendSetEvent(t, w, drive, events.Wake, "cache")
	w.UntilSleep(drive, "cache", api.Succeeded)
	expectResumed(t, w, drive, row, "TidbCluster", before)
}

// expectRefusedOnce checks that the set stays awake, that an Event has the reason, and that the same refusal writes nothing.
func expectRefusedOnce(t *testing.T, w *kit.World, drive *kit.Drive, name string) {
	t.Helper()
	sleep := w.UntilSleep(drive, name, api.Refused)
	if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, "kubectl drydock rbac --owners "+denied) {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if !slices.Contains(w.Events(name), "Warning OwnerNotPausable") {
		t.Errorf("events %v", w.Events(name))
	}
	before := w.Set(name).Annotations[api.SleepAnnotation]
	if err := drive.Tick(context.Background()); err != nil {
		t.Error(err)
	}
	if again := w.Set(name); *again.Spec.Replicas != 2 || again.Annotations[api.SleepAnnotation] != before {
		t.Errorf("it is tried again at once: %s", again.Annotations[api.SleepAnnotation])
	}
}

// TestReplacedOwnerIsResumed: the owner is replaced during the pause from its own manifest (kubectl replace --force, a restore of a
// backup). The new one carries the pause and Drydock's record of it.
func TestReplacedOwnerIsResumed(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	drive := pausedNow(t, w)
	old := w.Custom(row, "Prometheus", "main")
	w.OrphanCustom(row, "Prometheus", "main")
	again := w.CreateCustom(row, "Prometheus", "main", old.Object["spec"].(map[string]any), nil)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(old.GetAnnotations()) })
	w.SetController("web", again)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("nothing is left (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	after := w.Custom(row, "Prometheus", "main")
	if row.Paused(after) {
		t.Errorf("the owner stays paused: spec %v, annotations %v", after.Object["spec"], after.GetAnnotations())
	}
}
