//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestThreeReplicasSleepAndWake: the operator of a set restores its three replicas. The set falls asleep by itself, and
// wakes with three replicas and its data.
// Invariants: I4.
func TestThreeReplicasSleepAndWake(t *testing.T) {
	t.Parallel()
	const kind = "RedisReplication"
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](3)
	s.CreateSet(set)
	before := s.Data(t)
	operator := s.StartOperator(t, row, kind, 3)
	gateway := stage.FreeAddress(t)
	drydock(t, s, "--tick", "2s", "--gateway", gateway)
	s.GrantPause(row.Operator)
	s.Annotate("web", map[string]string{api.IdleTimeoutAnnotation: "10s"})
	sleep := awaitSleep(t, s, api.Asleep)
	if sleep.Replicas != 3 || s.Set("web").Status.Replicas != 0 {
		t.Errorf("%+v", sleep)
	}
	<-time.After(5 * time.Second) // the operator has had time for a hundred rounds
	if n := operator.Corrections(); n > 0 || *s.Set("web").Spec.Replicas != 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	visit(t, fmt.Sprintf("http://%s/api/strategies/blocking?names=statefulset_%s_web_3&session_duration=1h&timeout=2m", gateway,
		s.Namespace))
	awaitSleep(t, s, api.Succeeded)
	if set := s.Set("web"); *set.Spec.Replicas != 3 || set.Status.ReadyReplicas != 3 {
		t.Errorf("%d replicas, %d ready", *set.Spec.Replicas, set.Status.ReadyReplicas)
	}
	if after := s.Data(t); !slices.Equal(after.Sums, before.Sums) {
		t.Errorf("the data is %v, was %v", after.Sums, before.Sums)
	}
	s.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.IdleTimeoutAnnotation))
	s.ExpectOperatorActive(t, row, kind, operator)
}

// visit sends a request to the gateway like a reverse proxy, and waits until it may proceed.
func visit(t testing.TB, url string) {
	t.Helper()
	start := time.Now()
	response, err := http.Get(url) // the gateway ends it
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	status := response.Header.Get("X-Sablier-Session-Status")
	t.Logf("GET %s\n%s after %s, X-Sablier-Session-Status: %s\n%s", url, response.Status, time.Since(start).Round(time.Millisecond),
		status, body)
	if err != nil || response.StatusCode != http.StatusOK || status != "ready" {
		t.Errorf("the gateway answers %s, %q: %v", response.Status, status, err)
	}
}

// awaitSleep waits until the sleep of set web has the phase.
func awaitSleep(t testing.TB, s *stage.Stage, phase api.Phase) *api.Sleep {
	t.Helper()
	s.Eventually(fmt.Sprintf("the sleep is %s", phase), func() string {
		if sleep := s.Sleep("web"); sleep == nil || sleep.Phase != phase {
			return fmt.Sprintf("%+v", sleep)
		}
		return ""
	})
	return s.Sleep("web")
}

// TestConnectionsKeepSetAwake: the probe counts connections in the pods of a set after its idle timeout. With a
// connection the set stays awake, without any it falls asleep.
func TestConnectionsKeepSetAwake(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](1)
	set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers,
		corev1.Container{Name: "server", Image: stage.WorkloadImage,
			Command: []string{"sh", "-c", "nc -ll -p 8080 -e cat"}})
	s.CreateSet(set)
	address := podIP(s, "web-0")
	client := s.Start(t, "client", fmt.Sprintf("sleep 100000 | nc %s 8080", address))
	drydock(t, s, "--tick", "2s")
	s.Kubectl(t, "", "-n", s.Namespace, "create", "rolebinding", "drydock-idle-timeout-tcp", "--clusterrole=drydock-idle-timeout-tcp",
		"--serviceaccount="+api.HomeNamespace+":idle-timeout")
	s.Annotate("web", map[string]string{api.IdleTimeoutAnnotation: "10s", api.ActivityProbeAnnotation: "tcp:8080"})
	first := ""
	s.Eventually("the probe has found the connection", func() string {
		now := s.Set("web").Annotations[api.LastActivityAnnotation]
		if first == "" {
			first = now
		}
		if now == first {
			return "it has not: " + now
		}
		return ""
	})
	if sleep := s.Sleep("web"); sleep != nil {
		t.Errorf("%+v", sleep)
	}
	client()
	awaitSleep(t, s, api.Asleep)
}

func podIP(s *stage.Stage, name string) string {
	address := ""
	s.Eventually(name+" has an address", func() string {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if address = pod.Status.PodIP; pod.Status.Phase != corev1.PodRunning || address == "" {
			return string(pod.Status.Phase)
		}
		return ""
	})
	return address
}

// TestOperatorThatRestoresReplicasIsPaused: an operator restores the two replicas of the set unless its custom resource
// is paused. It must be paused while the volumes are copied, and active afterwards.
// Invariants: I5.
func TestOperatorThatRestoresReplicasIsPaused(t *testing.T) {
	t.Parallel()
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	operator := s.StartOperator(t, row, kind, 2)
	drydock(t, s)
	s.GrantPause(row.Operator)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	if n := operator.Corrections(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	s.ExpectOperatorActive(t, row, kind, operator)
}
