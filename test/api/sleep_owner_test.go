//go:build cluster

package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// operatorOf plays an operator that supports a stop: while the stop is set, its set has no replicas, else the given
// ones.
func operatorOf(w *kit.World, row owners.Row, kind string, replicas int) {
	want := replicas
	if row.Held(owners.ByStop, w.Custom(row, kind, "main")) {
		want = 0
	}
	if set := w.Set("web"); int(*set.Spec.Replicas) != want {
		w.Scale("web", want)
	}
}

// specFor returns a spec of the custom resource that has every setting of the row.
func specFor(row owners.Row) map[string]any {
	if row.Operator == "k8ssandra" {
		return map[string]any{"cassandra": map[string]any{"datacenters": []any{
			map[string]any{"metadata": map[string]any{"name": "dc1"}}, map[string]any{"metadata": map[string]any{"name": "dc2"}}}}}
	}
	return map[string]any{"replicas": int64(3), "numberOfInstances": int64(3)}
}

// TestEveryOwnerConsentsToSleep: each row's first kind is paused, or stops the set itself, while the set sleeps. When
// the set is awake, the resource is unchanged.
// Invariants: I5.
func TestEveryOwnerConsentsToSleep(t *testing.T) {
	t.Parallel()
	kit.NewWorld(t).GrantPause(allowed()...)
	for _, row := range owners.BuiltIn() {
		if row.PausedThroughController || row.Unverified || row.Operator == denied || row.Operator == "keda" {
			continue
		}
		t.Run(row.Operator+"/"+row.Kinds[0].Name+"."+row.Group, func(t *testing.T) {
			t.Parallel()
			w, kind := kit.NewWorld(t), row.Kinds[0].Name
			w.DefineKind(row, kind)
			owner := w.CreateCustom(row, kind, "main", specFor(row), nil)
			before := content(w.Custom(row, kind, "main"))
			idleSet(w, "web", 3, nil)
			w.SetController("web", owner)
			drive := w.Drive(nil)
			by := owners.ByPause
			if row.PrefersStop() {
				by = owners.ByStop
			}
			awaitAsleep(t, w, drive, func() {
				if by == owners.ByStop {
					operatorOf(w, row, kind, 3)
				}
			})
			if now := w.Custom(row, kind, "main"); !row.Held(by, now) {
				t.Errorf("the set sleeps, and its owner is not held: %v", now.Object)
			}
			sendSetEvent(t, w, drive, events.Wake, "web")
			w.Eventually("the set is awake and the owner unchanged (I5)", func() string {
				if by == owners.ByStop {
					operatorOf(w, row, kind, 3)
				}
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded {
					return string(sleep.Phase) + ": " + sleep.Message
				}
				return cmp.Diff(before, content(w.Custom(row, kind, "main")))
			})
			expectAwake(t, w, drive, "web", 3)
		})
	}
}

func allowed() []string {
	var names []string
	for _, name := range owners.BuiltIn().Operators() {
		if name != denied {
			names = append(names, name)
		}
	}
	return names
}

// awaitAsleep ticks until set web sleeps. others runs before each tick.
func awaitAsleep(t *testing.T, w *kit.World, drive *kit.Drive, others func()) *api.Sleep {
	t.Helper()
	w.Eventually("the set sleeps", func() string {
		others()
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep := w.Sleep("web"); sleep == nil || sleep.Phase != api.Asleep {
			if sleep == nil {
				return "it has not begun to"
			}
			return string(sleep.Phase) + ": " + sleep.Message
		}
		return ""
	})
	return w.Sleep("web")
}

const redis = "RedisReplication"

// ownedSleeper returns a world with an idle set of three replicas that a RedisReplication controls.
func ownedSleeper(t *testing.T) (*kit.World, owners.Row) {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "redis.redis.opstreelabs.in", redis)
	w.GrantPause(row.Operator)
	w.DefineKind(row, redis)
	idleSet(w, "web", 3, nil)
	w.SetController("web", w.CreateCustom(row, redis, "main", map[string]any{"size": int64(3)}, nil))
	return w, row
}

// TestPauseOfUserOutlivesSleep of the set.
// Invariants: I5.
func TestPauseOfUserOutlivesSleep(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	w.UpdateCustom(row, redis, "main", func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{row.Pause[0].Key: "true"})
	})
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.UntilSleep(drive, "web", api.Succeeded)
	expectAwake(t, w, drive, "web", 3)
	if now := w.Custom(row, redis, "main"); !row.Paused(now) || len(now.GetAnnotations()) != 1 {
		t.Errorf("%v", now.GetAnnotations())
	}
}

// TestOwnerThatRestoresReplicas: a set whose operator was late is scaled to zero once more. If the operator writes again, the sleep
// ends with a report, and the set runs.
// Invariants: I5.
func TestOwnerThatRestoresReplicas(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		times int
		want  api.Phase
	}{"once": {1, api.Asleep}, "for ever": {1000, api.Succeeded}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, registered := ownedSleeper(t)
			drive, came := w.Drive(nil), 0
			w.Eventually("the sleep has the expected phase", func() string {
				set := w.Set("web")
				if sleep := w.Sleep("web"); api.LoadStop(set).Of(sleep) && *set.Spec.Replicas == 0 && came < row.times {
					came++
					w.Scale("web", 3)
				}
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				sleep := w.Sleep("web")
				if sleep == nil || sleep.Phase != row.want {
					return cmp.Diff(nil, sleep)
				}
				return ""
			})
			sleep := w.Sleep("web")
			if row.want == api.Asleep {
				w.Eventually("the set is stopped once more", func() string {
					ticks(t, drive, 1)
					if stop := api.LoadStop(w.Set("web")); !stop.Pending() || !stop.Again || stop.Replicas != 3 || *w.Set("web").Spec.Replicas > 0 {
						return w.Set("web").Annotations[api.StopAnnotation]
					}
					return ""
				})
			} else {
				if sleep.Reason != api.StartedByOthers || !strings.Contains(sleep.Message, "field manager") {
					t.Errorf("%s: %s", sleep.Reason, sleep.Message)
				}
				expectAwake(t, w, drive, "web", 3)
				if now := w.Custom(registered, redis, "main"); registered.Paused(now) {
					t.Error("I5: the owner is still paused")
				}
			}
		})
	}
}

// TestScaledUpByUserIsAwake with the user's replicas.
// Invariants: I5.
func TestScaledUpByUserIsAwake(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 3, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.Scale("web", 2)
	sleep := w.UntilSleep(drive, "web", api.Succeeded)
	if sleep.Reason != api.StartedByOthers {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	expectAwake(t, w, drive, "web", 2)
}

// TestOwnedSetScaledUpByUserIsAwake: too much time has passed for a late write of its operator. The owner is resumed.
// Invariants: I5.
func TestOwnedSetScaledUpByUserIsAwake(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	before := content(w.Custom(row, redis, "main"))
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	stop := api.LoadStop(w.Set("web"))
	long := metav1.NewTime(stop.StoppedAt.Add(-5 * time.Minute))
	stop.StoppedAt = &long
	w.Annotate("web", map[string]string{api.StopAnnotation: stop.Encode()})
	w.Scale("web", 2)
	if sleep := w.UntilSleep(drive, "web", api.Succeeded); sleep.Reason != api.StartedByOthers || sleep.Starts != 1 {
		t.Errorf("%d starts, %s: %s", sleep.Starts, sleep.Reason, sleep.Message)
	}
	expectAwake(t, w, drive, "web", 2)
	expectResumed(t, w, drive, row, redis, before)
}

// TestOwnerDeletedWhileSetSleepsIsResumed: a paused operator might never remove its finalizer.
// Invariants: I5.
func TestOwnerDeletedWhileSetSleepsIsResumed(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	w.UpdateCustom(row, redis, "main", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"redis.example/operator"}) })
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.DeleteCustom(row, redis, "main")
	w.Eventually("the owner is resumed", func() string {
		ref := events.Ref{Namespace: w.Namespace, Name: "web"}
		if err := drive.Send(context.Background(), events.NewChanged(ref, "test", api.PauseOwner)); err != nil {
			return err.Error()
		}
		if err := drive.Drain(context.Background()); err != nil {
			return err.Error()
		}
		if now := w.Custom(row, redis, "main"); row.Paused(now) {
			return "it is paused"
		}
		return ""
	})
	w.UpdateCustom(row, redis, "main", func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
}

// TestSetDeletedWhileItSleepsResumesOwner, although there is no set to wake.
// Invariants: I5.
func TestSetDeletedWhileItSleepsResumesOwner(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	before := content(w.Custom(row, redis, "main"))
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	expectResumed(t, w, drive, row, redis, before)
}

// TestKEDAIsPausedWhileSetSleeps: the maker of the autoscaler would scale the set from zero.
// Invariants: I4.
func TestKEDAIsPausedWhileSetSleeps(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "keda.sh", "ScaledObject")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "ScaledObject")
	scaler := w.CreateCustom(row, "ScaledObject", "main", map[string]any{}, nil)
	before := content(w.Custom(row, "ScaledObject", "main"))
	idleSet(w, "web", 2, nil)
	autoscale(t, w, 1, scaler)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	if now := w.Custom(row, "ScaledObject", "main"); !row.Paused(now) {
		t.Errorf("%v", now.Object)
	}
	sendSetEvent(t, w, drive, events.Activity, "web")
	w.UntilSleep(drive, "web", api.Succeeded)
	expectResumed(t, w, drive, row, "ScaledObject", before)
}

// TestAutoscalerLetsItsTargetSleep: Kubernetes' autoscaler does nothing while its target is at zero.
// Invariants: I4.
func TestAutoscalerLetsItsTargetSleep(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 2, nil)
	autoscale(t, w, 1, nil)
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.UntilSleep(drive, "web", api.Succeeded)
	expectAwake(t, w, drive, "web", 2)
}

// autoscale creates a HorizontalPodAutoscaler of set web.
func autoscale(t *testing.T, w *kit.World, minimum int32, controller *unstructured.Unstructured) {
	t.Helper()
	metric := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType,
			Value: kit.Quantity("1")}}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet",
				Name: "web"},
			MinReplicas: &minimum, MaxReplicas: 5, Metrics: []autoscalingv2.MetricSpec{metric}}}
	if controller != nil {
		scaler.OwnerReferences = []metav1.OwnerReference{{APIVersion: controller.GetAPIVersion(), Kind: controller.GetKind(),
			Name: controller.GetName(), UID: controller.GetUID(), Controller: ptr.To(true)}}
	}
	if _, err := w.Kube.AutoscalingV2().HorizontalPodAutoscalers(w.Namespace).Create(context.Background(), scaler,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestOwnerStopsAllItsSets: an operator stops all its sets together, so all must be ready to sleep. The first one that
// wakes wakes all.
func TestOwnerStopsAllItsSets(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "cassandra.datastax.com", "CassandraDatacenter")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "CassandraDatacenter")
	owner := w.CreateCustom(row, "CassandraDatacenter", "main", map[string]any{}, nil)
	idleSet(w, "web", 2, nil)
	w.SetController("web", owner)
	other := kit.WorldSet("rack2", 2, "64Mi", "data")
	w.CreateSet(other)
	w.SetController("rack2", owner)
	drive := w.Drive(nil)
	sleep := w.UntilSleep(drive, "web", api.Refused)
	if !strings.Contains(sleep.Message, "rack2") || !strings.Contains(sleep.Message, api.GroupLabel) {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	for _, name := range []string{"web", "rack2"} {
		w.PatchSet(
			name,
			`{"metadata":{"labels":{"drydock.dev/group":"dc"},"annotations":{"drydock.dev/idle-timeout":"1h","drydock.dev/last-activity":"`+kit.Ago(
				2*time.Hour,
			)+`"}}}`,
		)
	}
	operate := func() {
		want := 2
		if row.Held(owners.ByStop, w.Custom(row, "CassandraDatacenter", "main")) {
			want = 0
		}
		for _, name := range []string{"web", "rack2"} {
			if int(*w.Set(name).Spec.Replicas) != want {
				w.Scale(name, want)
			}
		}
	}
	both := func(phase api.Phase) {
		t.Helper()
		w.Eventually("both are "+string(phase), func() string {
			operate()
			if err := drive.Tick(context.Background()); err != nil {
				return err.Error()
			}
			for _, name := range []string{"web", "rack2"} {
				if sleep := w.Sleep(name); sleep == nil || sleep.Phase != phase {
					return name + ": " + cmp.Diff(nil, sleep)
				}
			}
			return ""
		})
	}
	both(api.Asleep)
	sendSetEvent(t, w, drive, events.Wake, "rack2")
	both(api.Succeeded)
	expectAwake(t, w, drive, "web", 2)
	expectAwake(t, w, drive, "rack2", 2)
	if now := w.Custom(row, "CassandraDatacenter", "main"); row.Held(owners.ByStop, now) || len(now.GetAnnotations()) != 0 {
		t.Errorf("%v", now.Object)
	}
}

// TestDeniedScalingEndsSleep: the API server denies to scale the set to zero. The record has the reason, the set is
// unchanged, and the owner is resumed.
// Invariants: I5.
func TestDeniedScalingEndsSleep(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	before := content(w.Custom(row, redis, "main"))
	w.DenyScalingToZero("web")
	w.Expect(http.StatusUnprocessableEntity, api.ScaleFunction, "a policy denies zero replicas")
	drive := w.Drive(nil)
	sleep := w.UntilSleep(drive, "web", api.Failed)
	if sleep.Reason != api.Rejected || !strings.Contains(sleep.Message, "denied by a test") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	expectAwake(t, w, drive, "web", 3)
	expectResumed(t, w, drive, row, redis, before)
}
