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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// idleSet creates a ready set that was last used two hours ago, with a timeout of one hour.
func idleSet(w *kit.World, name string, replicas int32, annotations map[string]string) {
	set := kit.WorldSet(name, replicas, "64Mi", "data")
	set.Annotations[api.IdleTimeoutAnnotation] = "1h"
	set.Annotations[api.LastActivityAnnotation] = kit.Ago(2 * time.Hour)
	for key, value := range annotations {
		set.Annotations[key] = value
	}
	w.CreateSet(set)
}

// expectAwake checks that the set runs with the replicas and that nothing is left (I4, I9).
func expectAwake(t *testing.T, w *kit.World, drive *kit.Drive, name string, replicas int32) {
	t.Helper()
	w.Eventually("nothing is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	if set := w.Set(name); *set.Spec.Replicas != replicas || set.Status.ReadyReplicas != replicas {
		t.Errorf("%d replicas, %d ready, want %d", *set.Spec.Replicas, set.Status.ReadyReplicas, replicas)
	}
}

func sendSetEvent(t *testing.T, w *kit.World, drive *kit.Drive, eventType, set string) {
	t.Helper()
	if err := w.SendSetEvent(drive, eventType, set); err != nil {
		t.Fatalf("%s about %s: %v", eventType, set, err)
	}
}

// TestSleepAndWake: three replicas sleep and wake.
// Invariants: I4.
func TestSleepAndWake(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 3, nil)
	drive := w.Drive(nil)
	sleep := w.UntilSleep(drive, "web", api.Asleep)
	if sleep.Replicas != 3 || sleep.Request != "idle" || w.Set("web").Status.Replicas != 0 {
		t.Errorf("%+v", sleep)
	}
	if want := []string{"sleep.decided", "owner.paused"}; !containsAll(drive.EventTypes, want) {
		t.Errorf("events %v, want %v", drive.EventTypes, want)
	}
	version := w.Set("web").ResourceVersion
	drive.EventTypes = nil
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if len(drive.EventTypes) > 0 || w.Set("web").ResourceVersion != version {
		t.Errorf("functions ran for a sleeping set: %v", drive.EventTypes)
	}
	sendSetEvent(t, w, drive, events.Wake, "web")
	sleep = w.UntilSleep(drive, "web", api.Succeeded)
	if sleep.Reason != api.Awake || sleep.ReadyAt == nil || sleep.Finished == nil || sleep.Deadline != nil {
		t.Errorf("%+v", sleep)
	}
	expectAwake(t, w, drive, "web", 3)
	if want := []string{"wake.decided", "scaled"}; !containsAll(drive.EventTypes, want) {
		t.Errorf("events %v, want %v", drive.EventTypes, want)
	}
}

func containsAll(all, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(all, s) })
}

// TestPausedSetSleepsUntilAnnotationIsRemoved: no activity wakes it.
func TestPausedSetSleepsUntilAnnotationIsRemoved(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 2, "64Mi", "data")
	set.Annotations[api.PausedAnnotation] = "true"
	w.CreateSet(set)
	drive := w.Drive(nil)
	if sleep := w.UntilSleep(drive, "web", api.Asleep); sleep.Request != "paused" || sleep.Replicas != 2 {
		t.Errorf("%+v", sleep)
	}
	sendSetEvent(t, w, drive, events.Wake, "web")
	if sleep := w.Sleep("web"); sleep.Phase != api.Asleep {
		t.Errorf("%s %s", sleep.Phase, sleep.Message)
	}
	w.PatchSet("web", `{"metadata":{"annotations":{"drydock.dev/paused":null}}}`)
	w.UntilSleep(drive, "web", api.Succeeded)
	expectAwake(t, w, drive, "web", 2)
}

// TestGroupSleepsAndWakesInOrder: a set stops after its dependents and starts before them.
func TestGroupSleepsAndWakesInOrder(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for name, needs := range map[string]string{"db": "", "queue": "db", "web": "db,queue"} {
		set := kit.WorldSet(name, 2, "64Mi", "data")
		set.Labels[api.GroupLabel] = "shop"
		if needs != "" {
			set.Annotations[api.DependsOnAnnotation] = needs
		}
		if name == "db" {
			set.Annotations[api.IdleTimeoutAnnotation] = "1h"
		}
		set.Annotations[api.LastActivityAnnotation] = kit.Ago(2 * time.Hour)
		w.CreateSet(set)
	}
	drive := w.Drive(nil)
	var order []string
	w.Eventually("all sleep", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		for _, name := range []string{"db", "queue", "web"} {
			if sleep := w.Sleep(name); sleep != nil && sleep.Phase == api.Asleep && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		if len(order) < 3 {
			return "asleep: " + strings.Join(order, ", ")
		}
		return ""
	})
	if diff := cmp.Diff([]string{"web", "queue", "db"}, order); diff != "" {
		t.Errorf("they fell asleep in another order: %s", diff)
	}
	if err := w.SendGroupEvent(drive, events.Activity, "shop"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "queue", "db"} {
		w.UntilSleep(drive, name, api.Succeeded)
		expectAwake(t, w, drive, name, 2)
	}
	ready := func(name string) time.Time { return w.Sleep(name).ReadyAt.Time }
	if ready("queue").Before(ready("db")) || ready("web").Before(ready("queue")) {
		t.Errorf("ready at %s, %s, %s", ready("db"), ready("queue"), ready("web"))
	}
}

// TestSleepingSetWithLostAnnotationsWakes: a user replaces the annotations or removes the opt-in label. The replicas
// are restored.
// Invariants: I4.
func TestSleepingSetWithLostAnnotationsWakes(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"the document":                      `{"metadata":{"annotations":{"drydock.dev/sleep":null}}}`,
		"the opt-in":                        `{"metadata":{"labels":{"drydock.dev/managed":null}}}`,
		"the document and the opt-in label": `{"metadata":{"labels":{"drydock.dev/managed":null},"annotations":{"drydock.dev/sleep":null}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			idleSet(w, "web", 3, nil)
			drive := w.Drive(nil)
			w.UntilSleep(drive, "web", api.Asleep)
			w.PatchSet("web", body)
			w.Eventually("the replicas come back", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if n := w.Set("web").Status.ReadyReplicas; n != 3 {
					return fmt.Sprintf("%d are ready", n)
				}
				return ""
			})
			expectAwake(t, w, drive, "web", 3)
		})
	}
}

// TestSleepOfAnotherSetIsIgnored: a set is created with the annotations of a set that slept.
// Invariants: I3.
func TestSleepOfAnotherSetIsIgnored(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 3, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	again := kit.WorldSet("web", 2, "64Mi", "data")
	again.Annotations = w.Set("web").Annotations
	again.Annotations[api.LastActivityAnnotation] = kit.Ago(0)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	w.CreateSet(again)
	expectAwake(t, w, drive, "web", 2)
}

// TestInvalidInputIsReportedOnce: the set stays awake, and no function runs until the input is fixed.
func TestInvalidInputIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ key, bad, good, says string }{
		"a timeout":  {api.IdleTimeoutAnnotation, "abc", "1h", "30m"},
		"a window":   {api.KeepWarmAnnotation, "Mon 8-17", "Mon 08:00-08:01 UTC", "Europe/Berlin"},
		"a member":   {api.DependsOnAnnotation, "missing", "", "missing"},
		"a probe":    {api.ActivityProbeAnnotation, "ping", "", "http:PORT/PATH"},
		"a deadline": {api.AwakeUntilAnnotation, "tomorrow", "2020-01-01T00:00:00Z", "RFC 3339"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			idleSet(w, "web", 2, map[string]string{row.key: row.bad})
			drive := w.Drive(nil)
			sleep := w.UntilSleep(drive, "web", api.Refused)
			if sleep.Reason != api.RequestInvalid || !strings.Contains(sleep.Message, row.says) ||
				!strings.Contains(sleep.Message, row.key) {
				t.Errorf("%s: %s", sleep.Reason, sleep.Message)
			}
			version := w.Set("web").ResourceVersion
			drive.EventTypes = nil
			if err := drive.Tick(context.Background()); err != nil || len(drive.EventTypes) > 0 || w.Set("web").ResourceVersion != version {
				t.Errorf("it is reported again: %v, %v", drive.EventTypes, err)
			}
			body := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, row.key)
			if row.good != "" {
				body = fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, row.key, row.good)
			}
			w.PatchSet("web", body)
			w.UntilSleep(drive, "web", api.Asleep)
		})
	}
}

// TestResizeWaitsForSetToWake: a sleeping set is not resized until it is awake.
// Invariants: I3.
func TestResizeWaitsForSetToWake(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 1, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if status := w.Status("web"); status != nil {
		t.Errorf("%+v", status)
	}
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.UntilSleep(drive, "web", api.Succeeded)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectAwake(t, w, drive, "web", 1)
}

// applyReplicas applies replicas like a deployment tool.
func applyReplicas(t *testing.T, w *kit.World, manager, set string, replicas int) {
	t.Helper()
	body := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":%q},"spec":{"replicas":%d}}`, set, replicas)
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: ptr.To(true)})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSleepEndsIfDeploymentToolRestoresReplicas: the next sleep waits, longer each time, and the record names the tool.
func TestSleepEndsIfDeploymentToolRestoresReplicas(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 2, nil)
	drive := w.Drive(nil)
	sleepAndHeal := func() *api.Sleep {
		w.Eventually("the set sleeps", func() string {
			if sleep := w.Sleep("web"); sleep != nil && sleep.Phase == api.Asleep {
				return ""
			}
			if err := w.SendSetEvent(drive, events.Sleep, "web"); err != nil {
				return err.Error()
			}
			return "not yet"
		})
		applyReplicas(t, w, "argocd-controller", "web", 2)
		return w.UntilSleep(drive, "web", api.Succeeded)
	}
	if sleep := sleepAndHeal(); sleep.Reason != api.StartedByOthers || !mentions(sleep.Message, "10m0s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	w.Retry("web") // otherwise the next sleep waits for ten minutes
	sleep := sleepAndHeal()
	if sleep.Reason != api.StartedByOthers || !mentions(sleep.Message, `"argocd-controller"`, " 2 ", "20m0s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	w.Annotate("web", map[string]string{api.LastActivityAnnotation: kit.Ago(2 * time.Hour)})
	w.Eventually("the event is of a later second", func() string {
		if time.Since(sleep.Finished.Time) < 2*time.Second {
			return "not yet"
		}
		return ""
	})
	sendSetEvent(t, w, drive, events.Sleep, "web")
	if again := w.Sleep("web"); again.Attempt != sleep.Attempt || *w.Set("web").Spec.Replicas != 2 {
		t.Errorf("it is tried again at once: %+v", again)
	}
	expectAwake(t, w, drive, "web", 2)
}

// operatorHelps plays an operator without which no pod of its set becomes ready, like Galera's, which must recover the
// cluster. It does nothing while it is paused.
func operatorHelps(w *kit.World, row owners.Row, kind string) {
	paused := row.Paused(w.Custom(row, kind, "main"))
	w.Node.Set(func(n *kit.Node) { n.HoldPods = paused })
}

// TestPodsThatNeedTheirOperatorBecomeReady: the owner is resumed when the replicas are back, before they are ready.
func TestPodsThatNeedTheirOperatorBecomeReady(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	before := content(w.Custom(row, redis, "main"))
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	operatorHelps(w, row, redis)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.Eventually("the set wakes", func() string {
		operatorHelps(w, row, redis)
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded {
			return string(sleep.Phase) + ": " + sleep.Message
		}
		return ""
	})
	expectAwake(t, w, drive, "web", 3)
	expectResumed(t, w, drive, row, redis, before)
}

// TestPodsThatNeedTheirOperatorBecomeReadyAfterResize: the same is true at the end of a resize by copy.
func TestPodsThatNeedTheirOperatorBecomeReadyAfterResize(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := w.Drive(nil)
	w.Eventually("the resize succeeds", func() string {
		paused := row.Paused(w.Custom(row, "Prometheus", "main"))
		w.Node.Set(func(n *kit.Node) { n.HoldPods = paused })
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status == nil || status.Phase != api.Succeeded {
			return "it has not"
		}
		return ""
	})
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestSetWakesWithoutItsOperator: the operator has stopped the set and never starts it. Drydock starts it and reports
// that.
func TestSetWakesWithoutItsOperator(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	w.GrantPause(row.Operator)
	w.Settings.ReadyTimeout = 20 * time.Second // a busy machine starts three pods in it
	w.DefineKind(row, "PostgresCluster")
	owner := w.CreateCustom(row, "PostgresCluster", "main", map[string]any{}, nil)
	before := content(w.Custom(row, "PostgresCluster", "main"))
	idleSet(w, "web", 3, nil)
	w.SetController("web", owner)
	drive := w.Drive(nil)
	awaitAsleep(t, w, drive, func() { operatorOf(w, row, "PostgresCluster", 3) })
	sendSetEvent(t, w, drive, events.Wake, "web")
	sleep := w.UntilSleep(drive, "web", api.Succeeded)
	if !mentions(sleep.Message, "operator", " 3 ", "20s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if told := strings.Join(w.Events("web"), ", "); !strings.Contains(told, "Warning "+string(api.OwnerAway)) {
		t.Errorf("events %s", told)
	}
	expectAwake(t, w, drive, "web", 3)
	expectResumed(t, w, drive, row, "PostgresCluster", before)
}
