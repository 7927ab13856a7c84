//go:build cluster

package knative

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// TestSetSleepsAndWakesByEvents: an owned set sleeps by one annotation and wakes by another one, then by an HTTP
// request to the gateway. No function runs before the annotation or afterwards.
func TestSetSleepsAndWakesByEvents(t *testing.T) {
	k := setUp(t)
	const kind = "RedisReplication"
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	k.GrantPause(row.Operator)
	t.Cleanup(func() { k.RevokePause(row.Operator) })
	workload := stage.Workload("64Mi")
	workload.Annotations[api.IdleTimeoutAnnotation] = "1h"
	k.CreateSet(workload)
	operator := k.StartOperator(t, row, kind, 2)
	t.Cleanup(func() { k.OrphanCustom(row, kind, "main") })
	before := k.Data(t)
	k.Start(t, "browser", "while :; do sleep 1; done")
	k.awaitRest(t)

	began := time.Now()
	start := began
	k.stamp(api.SleepRequestedAnnotation)
	sleep := k.awaitSleep(t, api.Asleep)
	t.Logf("asleep after %s", time.Since(start).Round(100*time.Millisecond))
	if sleep.Replicas != 2 || !row.Paused(k.Custom(row, kind, "main")) {
		t.Errorf("%+v", sleep)
	}
	start = time.Now()
	k.stamp(api.LastActivityAnnotation)
	k.awaitSleep(t, api.Succeeded)
	t.Logf("awake after %s", time.Since(start).Round(100*time.Millisecond))
	k.awaitRest(t)
	k.expectAppeared(t, began, "idle-timeout", "pause-owner")
	k.expectAwake(t, before)

	k.stamp(api.SleepRequestedAnnotation)
	k.awaitSleep(t, api.Asleep)
	start = time.Now()
	answer := k.Exec(t, "browser", "wget -S -O - 'http://wake-gateway.drydock.svc.cluster.local/api/strategies/blocking?names="+
		fmt.Sprintf("statefulset_%s_web_2", k.Namespace)+"&session_duration=30m&timeout=2m' 2>&1")
	t.Logf("the gateway's answer after %s:\n%s", time.Since(start).Round(100*time.Millisecond), answer)
	if !strings.Contains(strings.ToLower(answer), "x-sablier-session-status: ready") {
		t.Error("the gateway does not say that the set is ready")
	}
	k.awaitSleep(t, api.Succeeded)
	k.expectAppeared(t, start, "wake-gateway")
	k.expectAwake(t, before)
	if n := operator.Corrections(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	k.Eventually("the owner is as before (I5)", func() string {
		if now := k.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) != 0 {
			return "it is paused"
		}
		return ""
	})
}

// stamp writes the current time into an annotation of the set. The Broker would not show the sender of an order, so the
// order would be rejected.
func (k *knative) stamp(annotation string) {
	k.Annotate("web", map[string]string{annotation: idle.FormatTime(time.Now())})
}

func (k *knative) awaitSleep(t *testing.T, phase api.Phase) *api.Sleep {
	t.Helper()
	k.Eventually("the sleep is "+string(phase), func() string {
		if sleep := k.Sleep("web"); sleep == nil || sleep.Phase != phase {
			return fmt.Sprintf("%+v", sleep)
		}
		return ""
	})
	return k.Sleep("web")
}

func (k *knative) expectAppeared(t *testing.T, since time.Time, names ...string) {
	t.Helper()
	appeared := k.functions.appeared(since)
	for _, name := range names {
		if !slices.Contains(appeared, name) {
			t.Errorf("no pod of %s was seen, of %v", name, appeared)
		}
	}
	for _, name := range []string{"dead-letter", "backup", "detect-resize"} {
		if slices.Contains(appeared, name) {
			t.Errorf("a pod of %s was seen", name)
		}
	}
}

func (k *knative) expectAwake(t *testing.T, before stage.Data) {
	t.Helper()
	if set := k.Set("web"); *set.Spec.Replicas != 2 || set.Status.ReadyReplicas != 2 {
		t.Errorf("I4: %d replicas, %d ready", *set.Spec.Replicas, set.Status.ReadyReplicas)
	}
	if after := k.Data(t); !slices.Equal(after.Sums, before.Sums) {
		t.Errorf("I1: the data is %v, was %v", after.Sums, before.Sums)
	}
}

// TestOwnerIsPausedAndResumed: with only the rights of `kubectl drydock rbac`, pause-owner pauses the custom resource
// that controls the set, and restores it.
// Invariants: I5.
func TestOwnerIsPausedAndResumed(t *testing.T) {
	k := setUp(t)
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	k.DefineKind(row, kind)
	k.Kubectl(t, k.plugin(t, "rbac", "--owners", row.Operator), "apply", "-f", "-")
	t.Cleanup(func() { k.RevokePause(row.Operator) })
	k.GrantPause(row.Operator) // waits until the rights are in force
	owner := k.CreateCustom(row, kind, "main", map[string]any{"paused": false}, nil)
	t.Cleanup(func() { k.OrphanCustom(row, kind, "main") })
	k.CreateSet(stage.Workload("64Mi"))
	k.SetController("web", owner)
	before := k.Data(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	k.AwaitPhase(t, api.Moving)
	if now := k.Custom(row, kind, "main"); !row.Paused(now) {
		t.Errorf("the set is being stopped, and its owner is not paused: %v", now.Object)
	}
	k.ExpectResized(t, before)
	k.Eventually("the owner is as before", func() string {
		if now := k.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) != 0 {
			return "it is paused"
		}
		return ""
	})
}

// TestScalerDrainsFromZero runs examples/drain: no function runs before the Scaler is scaled.
func TestScalerDrainsFromZero(t *testing.T) {
	k := setUp(t)
	manifests := k.ApplyExample(t, "drain", 2)
	t.Cleanup(func() { k.Kubectl(t, manifests, "-n", k.Namespace, "delete", "--ignore-not-found", "-f", "-") })
	k.AwaitScaler(t, "store", "idle 3")
	k.awaitRest(t)

	start := time.Now()
	k.ScaleScaler(t, "store", 1)
	k.AwaitScaler(t, "store", "idle 1")
	t.Logf("from three members to one took %s", time.Since(start).Round(100*time.Millisecond))
	if rows := strings.Fields(k.Exec(t, "store-0", "ls /data/rows")); len(rows) != 3*8 {
		t.Errorf("%d rows are left of 24: %v", len(rows), rows)
	}
	k.expectAppeared(t, start, "scale")
}

// usersFunction is a function of the user, without an account of Drydock.
const usersFunction = "hook-function"

// TestUsersFunctionRunsHook runs examples/hook-function: the Broker calls the user's function, and its answer continues
// the scaling.
func TestUsersFunctionRunsHook(t *testing.T) {
	k := setUp(t)
	folder := filepath.Join(kit.Root(t), "examples", "hook-function")
	function := k.build(t, usersFunction, "./examples/hook-function")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	service := strings.Replace(read("service.yaml"), "example.com/hook-function:1", function, 1)
	for _, manifest := range []string{service, read("trigger.yaml")} {
		k.Kubectl(t, manifest, "apply", "-f", "-")
		t.Cleanup(func() { k.Kubectl(t, manifest, "delete", "--ignore-not-found", "-f", "-") })
	}
	// After a Trigger's deletion, the Broker answers 404 to each event until its channel has removed the subscription, and gives the event
	// up 51 seconds later: in the next test. So the Trigger is deleted when there are no events.
	t.Cleanup(func() { k.awaitRest(t) })
	t.Cleanup(func() { k.DeleteSet("web", metav1.DeletePropagationForeground) })
	k.Kubectl(t, "", "-n", drydock, "wait", "--for=condition=Ready", "--timeout=3m", "ksvc/hook-function", "trigger/hook-function")
	k.CreateSet(stage.Workload("64Mi"))
	k.Kubectl(t, read("scaler.yaml"), "-n", k.Namespace, "apply", "-f", "-")
	// The next test has a set with the same name, which the Scaler would scale.
	t.Cleanup(func() { k.Kubectl(t, "", "-n", k.Namespace, "delete", "scaler", "web", "--ignore-not-found") })
	replicas := statefulset.Replicas(k.Set("web"))
	k.AwaitScaler(t, "web", fmt.Sprintf("idle %d", replicas))
	k.ScaleScaler(t, "web", int(replicas)+1)
	k.AwaitScaler(t, "web", fmt.Sprintf("idle %d", replicas+1))
}
