package knative

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestSetSleepsAndWakesByEvents: an owned set falls asleep by one event and wakes up by another one, then by an HTTP request
// to the gateway. No function runs before, between or after.
func TestSetSleepsAndWakesByEvents(t *testing.T) {
	k := setUp(t)
	const kind = "RedisReplication"
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	k.MayPause(row.Operator)
	t.Cleanup(func() { k.MayNotPause(row.Operator) })
	workload := stage.Workload("64Mi")
	workload.Annotations[api.IdleTimeoutAnnotation] = "1h"
	k.CreateSet(workload)
	operator := k.StartOperator(t, row, kind, 2)
	t.Cleanup(func() { k.OrphanCustom(row, kind, "main") })
	before := k.Data(t)
	k.browse(t)
	k.awaitRest(t)

	start := time.Now()
	k.plugin(t, "emit", "sleep", "sts/web")
	nap := k.awaitSleep(t, api.Asleep)
	t.Logf("asleep after %s", time.Since(start).Round(100*time.Millisecond))
	if nap.Replicas != 2 || !row.Paused(k.Custom(row, kind, "main")) {
		t.Errorf("%+v", nap)
	}
	k.awaitRest(t)
	k.expectAppeared(t, start, "idle-timeout", "pause-owner")

	start = time.Now()
	k.plugin(t, "emit", "wake", "sts/web")
	k.awaitSleep(t, api.Succeeded)
	t.Logf("awake after %s", time.Since(start).Round(100*time.Millisecond))
	k.awaitRest(t)
	k.expectAppeared(t, start, "idle-timeout", "pause-owner")
	k.expectAwake(t, before)

	k.plugin(t, "emit", "sleep", "sts/web")
	k.awaitSleep(t, api.Asleep)
	k.awaitRest(t)
	start = time.Now()
	answer := k.Exec(t, "browser", "wget -S -O - 'http://wake-gateway.drydock.svc.cluster.local/api/strategies/blocking?names="+
		fmt.Sprintf("statefulset_%s_web_2", k.Namespace)+"&session_duration=30m&timeout=2m' 2>&1")
	t.Logf("the gateway's answer after %s:\n%s", time.Since(start).Round(100*time.Millisecond), answer)
	if !strings.Contains(strings.ToLower(answer), "x-sablier-session-status: ready") {
		t.Error("the gateway does not say that the set is ready")
	}
	k.awaitSleep(t, api.Succeeded)
	k.awaitRest(t)
	k.expectAppeared(t, start, "wake-gateway", "idle-timeout", "pause-owner")
	k.expectAwake(t, before)
	if n := operator.Fights(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	if now := k.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) > 0 {
		t.Errorf("I5: %v", now.Object)
	}
}

// browse starts a pod that asks the gateway as a reverse proxy in the cluster would.
func (k *knative) browse(t *testing.T) {
	t.Helper()
	zero := int64(0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "browser"}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero,
		Containers: []corev1.Container{{Name: "sh", Image: stage.WorkloadImage, Command: []string{"sh", "-c", "while :; do sleep 1; done"}}}}}
	pods := k.Kube.CoreV1().Pods(k.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), "browser", metav1.DeleteOptions{GracePeriodSeconds: &zero})
	})
	k.Eventually("the browser runs", func() string {
		now, err := pods.Get(t.Context(), "browser", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if now.Status.Phase != corev1.PodRunning {
			return string(now.Status.Phase)
		}
		return ""
	})
}

func (k *knative) awaitSleep(t *testing.T, phase api.Phase) *api.Status {
	t.Helper()
	k.Eventually("the sleep is "+string(phase), func() string {
		if nap := k.Sleep("web"); nap == nil || nap.Phase != phase {
			return fmt.Sprintf("%+v", nap)
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
