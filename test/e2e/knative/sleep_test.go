//go:build cluster

package knative

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/owners"
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
