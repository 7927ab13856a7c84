//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// redis is a primary with two replicas, and three Sentinels that know the primary. All have stable names.
type redis struct {
	service
	client *redisClient
}

func newRedis(t *testing.T) redis {
	t.Helper()
	s := redis{service: service{stage.New(t)}}
	s.Patience = 5 * time.Minute
	set, sentinels := redisSet(), sentinelSet()
	s.namePods(t, set)
	s.namePods(t, sentinels)
	s.CreateSet(set)
	s.awaitReady()
	s.budget(t, set, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	s.CreateSet(sentinels)
	s.Eventually("the Sentinels know all members and each other", func() string {
		for i := range 3 {
			known := s.Exec(t, fmt.Sprintf("sentinel-%d", i), "redis-cli -p 26379 info sentinel")
			if !strings.Contains(known, "status=ok,address=web-2.web:6379,slaves=2,sentinels=3") {
				return known
			}
		}
		return ""
	})
	s.client = s.startClient(t)
	t.Cleanup(func() { s.showLogs(t) })
	return s
}

// showLogs shows the logs of the members and of a Sentinel after a failure.
func (s redis) showLogs(t *testing.T) {
	for _, pod := range []string{"sentinel-0", "web-0", "web-1", "web-2"} {
		if t.Failed() {
			log, _ := s.TryKubectl(t, "", "-n", s.Namespace, "logs", "--tail=40", pod)
			t.Logf("log of %s:\n%s", pod, log)
		}
	}
}

// redisSet returns a set whose first primary has the highest ordinal, which a rolling resize would otherwise move
// first.
func redisSet() *appsv1.StatefulSet {
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](served)
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	set.Annotations[api.PrimaryAnnotation] = "role=primary"
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](60)
	pod.Containers[0] = corev1.Container{
		Name: "redis", Image: redisImage, Command: []string{"sh", "-c", redisStart},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c",
			redisStop}}}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, TimeoutSeconds: 5, // each starts processes
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", redisReady}}}},
	}
	return set
}

// sentinelSet returns a set without claims that is not managed.
func sentinelSet() *appsv1.StatefulSet {
	set := kit.WorldSet("sentinel", 3, "")
	delete(set.Labels, api.ManagedLabel)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	set.Spec.Template.Spec.Containers[0] = corev1.Container{Name: "sentinel", Image: redisImage,
		Command: []string{"sh", "-c", sentinelStart}}
	return set
}

// leader returns the pod that Sentinel names.
func (s redis) leader(context.Context) string { return s.client.primary() }

// expectFound checks that each member found all of its puts on its new volume before the primary sent any.
func (s redis) expectFound(t *testing.T) {
	t.Helper()
	for i := range served {
		var left, found int
		text := s.Exec(t, fmt.Sprintf("web-%d", i), "cat /data/left /data/found")
		if _, err := fmt.Sscan(text, &left, &found); err != nil {
			t.Errorf("member %d notes %q: %v", i, text, err)
		}
		t.Logf("member %d stopped with %d keys, and started with %d", i, left, found)
		if left == 0 || found < left {
			t.Errorf("member %d stopped with %d keys, and started with %d", i, left, found)
		}
	}
}

// expectEveryPut waits until each member has every acknowledged put. A replica may lag behind the primary for a moment,
// but lost data never appears.
func (s redis) expectEveryPut(t *testing.T) {
	t.Helper()
	acked := s.client.puts.acknowledged(t)
	for i := range served {
		pod := fmt.Sprintf("web-%d", i)
		s.Eventually(pod+" has every put", func() string {
			lines := strings.Split(s.Exec(t, pod, "redis-cli hgetall puts"), "\n")
			values := map[string]string{}
			for pair := range slices.Chunk(lines, 2) {
				values[pair[0]] = pair[len(pair)-1]
			}
			for key, value := range acked {
				if values[key] != value {
					return fmt.Sprintf("it has %q for %s, and %q was acknowledged", values[key], key, value)
				}
			}
			return ""
		})
	}
}

// TestRedisLosesNoAcknowledgedPut: a writer puts keys during a rolling resize to another class. A put is acknowledged
// when a replica has it, too. Afterwards each member has every such put. Two members were ready at all times. The
// primary, which has the highest ordinal, was moved last, and failed over before its end.
func TestRedisLosesNoAcknowledgedPut(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	labelled := s.labelLeader(t, s.leader)
	s.awaitAcknowledged(s.client.puts, 50)
	drydock(t, s.Stage)
	status := s.moveToOtherClass(t, "160Mi")
	s.awaitAcknowledged(s.client.puts, s.client.puts.count()+50) // for the present primary
	s.expectLeaderLast(t, status, labelled)
	s.expectFound(t)
	s.expectEveryPut(t)
}
