//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// asleepWithOwners returns a namespace with four sets: web sleeps with a paused owner and a retention policy that
// deletes claims, rack sleeps because its owner has stopped it, cache has the finalizer of a cleanup, and db is being
// resized.
func asleepWithOwners(t *testing.T) (w *kit.World, drive *kit.Drive, pauses, stops owners.Row) {
	t.Helper()
	w = kit.NewWorld(t)
	pauses, stops = rowOf(t, "redis.redis.opstreelabs.in", redis), rowOf(t, "cassandra.datastax.com", "CassandraDatacenter")
	w.GrantPause(pauses.Operator, stops.Operator)
	w.DefineKind(pauses, redis)
	w.DefineKind(stops, "CassandraDatacenter")
	idleSet(w, "web", 2, nil)
	w.PatchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Retain"}}}`)
	w.SetController("web", w.CreateCustom(pauses, redis, "main", map[string]any{"size": int64(2)}, nil))
	idleSet(w, "rack", 2, nil)
	w.SetController("rack", w.CreateCustom(stops, "CassandraDatacenter", "main", map[string]any{}, nil))
	cache := kit.WorldSet("cache", 1, "64Mi", "data")
	cache.Finalizers, cache.Labels[api.FinalizerLabel] = []string{api.CleanupFinalizer}, api.FinalizerForCleanup
	w.CreateSet(cache)
	w.CreateSet(kit.WorldSet("db", 1, "64Mi", "data"))
	drive = w.Drive(nil)
	w.Eventually("both sets sleep", func() string {
		if stops.Held(owners.ByStop, w.Custom(stops, "CassandraDatacenter", "main")) && *w.Set("rack").Spec.Replicas > 0 {
			w.Scale("rack", 0)
		}
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		for _, name := range []string{"web", "rack"} {
			if sleep := w.Sleep(name); sleep == nil || sleep.Phase != api.Asleep {
				return name + " is awake"
			}
		}
		return ""
	})
	holdFirstPass(w, true)
	w.Annotate("db", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the resize runs", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("db"); !status.Active() || status.Phase != api.Moving {
			return "not yet"
		}
		return ""
	})
	return w, drive, pauses, stops
}

// awaitPods waits for the StatefulSet controller, without a tick.
func awaitPods(w *kit.World, name string, replicas int32) {
	w.Eventually(fmt.Sprintf("%s has %d ready replicas", name, replicas), func() string {
		if ready := w.Set(name).Status.ReadyReplicas; ready != replicas {
			return fmt.Sprintf("it has %d", ready)
		}
		return ""
	})
}

// TestReleaseWakesAndReleasesEverything: the command alone does it, while no function works on the sleeping sets.
func TestReleaseWakesAndReleasesEverything(t *testing.T) {
	t.Parallel()
	w, drive, pauses, stops := asleepWithOwners(t)
	before := fmt.Sprint(w.Set("web").ResourceVersion, w.Set("rack").ResourceVersion, w.Custom(pauses, redis, "main").GetResourceVersion())
	out, err := command(t, w, "release")
	if after := fmt.Sprint(w.Set("web").ResourceVersion, w.Set("rack").ResourceVersion,
		w.Custom(pauses, redis, "main").GetResourceVersion()); after != before {
		t.Errorf("without --yes it writes")
	}
	if err == nil || !mentions(out, "/web: ", "replicas 0 to 2", "/db: not released yet: ", w.Status("db").Operation) {
		t.Errorf("it says %v:\n%s", err, out)
	}
	out, err = command(t, w, "release", "--yes")
	if err == nil || !mentions(err.Error(), "2 of 4") || !mentions(out, "/rack: not released yet: ", "/db: not released yet: ") {
		t.Errorf("%v:\n%s", err, out)
	}
	awaitPods(w, "web", 2)
	if web := w.Set("web"); web.Labels[api.ManagedLabel] != "" || web.Annotations[api.SleepAnnotation] != "" ||
		web.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Errorf("web is %v, %v", web.ObjectMeta, web.Spec.PersistentVolumeClaimRetentionPolicy)
	}
	for row, kind := range map[*owners.Row]string{&pauses: redis, &stops: "CassandraDatacenter"} {
		now := w.Custom(*row, kind, "main")
		if diff := cmp.Diff(map[string]string(nil), now.GetAnnotations()); diff != "" ||
			row.Held(owners.ByStop, now) {
			t.Errorf("%s is held still: %v", kind, now.Object)
		}
	}
	if cache := w.Set("cache"); len(cache.Finalizers) > 0 || cache.Labels[api.FinalizerLabel] != "" {
		t.Errorf("cache is %v", cache.ObjectMeta)
	}
	// The operator does not run. The second run of the command starts the set.
	if out, err = command(t, w, "release", "--yes"); err == nil || !mentions(out, "/rack: ", "replicas 0 to 2") {
		t.Errorf("%v:\n%s", err, out)
	}
	if rack := w.Set("rack"); *rack.Spec.Replicas != 2 || rack.Labels[api.ManagedLabel] != "" {
		t.Errorf("rack has %d replicas", *rack.Spec.Replicas)
	}
	holdFirstPass(w, false)
	w.Finish(drive, "db")
	old := oldVolumes(w)
	if out, err = command(t, w, "release", "--yes"); err != nil || len(old) == 0 || !mentions(out, old...) {
		t.Errorf("old volumes %v, %v:\n%s", old, err, out)
	}
	if out, err = command(t, w, "release", "--yes"); err != nil || mentions(out, w.Namespace+"/") {
		t.Errorf("for the second time: %v:\n%s", err, out)
	}
	if left := slices.DeleteFunc(w.Leftovers(), func(s string) bool { return strings.Contains(s, "volume") }); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// oldVolumes returns the names of the retained volumes.
func oldVolumes(w *kit.World) []string {
	var names []string
	for _, v := range w.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestRunningFunctionsDoNotTouchReleasedSets: the command is safe while Drydock is still installed.
func TestRunningFunctionsDoNotTouchReleasedSets(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 2, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	if out, err := command(t, w, "release", "--yes"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	w.Annotate("web", map[string]string{api.LastActivityAnnotation: kit.Ago(2 * time.Hour)})
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
	}
	untilReady(w, drive, "web", 2)
	if sleep := w.Sleep("web"); sleep != nil {
		t.Errorf("it sleeps again: %+v", sleep)
	}
}

// TestReleasedSetStaysAwakeAfterANewInstallation: the user's order to sleep does not act again when the set opts in later.
func TestReleasedSetStaysAwakeAfterANewInstallation(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 2)
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	w.UntilSleep(drive, "web", api.Asleep)
	if out, err := command(t, w, "release", "--yes"); err != nil || !mentions(out, "-paused") {
		t.Fatalf("%v:\n%s", err, out)
	}
	w.PatchSet("web", `{"metadata":{"labels":{"drydock.dev/managed":"true"}}}`)
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
	}
	untilReady(w, drive, "web", 2)
	if sleep := w.Sleep("web"); sleep.Active() {
		t.Errorf("it sleeps again: %+v", sleep)
	}
}
