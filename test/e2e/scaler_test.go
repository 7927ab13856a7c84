//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/metrics"
	"drydock.dev/test/kit/stage"
)

// TestScalerDrainsMembersBeforeRemoval runs examples/drain unchanged: three members, each with its rows, become one
// member with all rows. The removal of the last one fails, because no member could take its rows.
func TestScalerDrainsMembersBeforeRemoval(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	drydock(t, s, "--tick", "2s")
	s.ApplyExample(t, "drain", 2)
	awaitReplicas(s, "store", 3)
	s.AwaitScaler(t, "store", "idle 3")

	s.ScaleScaler(t, "store", 1)
	s.Kubectl(t, "", "-n", s.Namespace, "wait", "scaler", "store", "--for=condition=Progressing=False", "--timeout=3m")
	if n := *s.Set("store").Spec.Replicas; n != 1 { // scale may not have seen the new count when the wait begins
		t.Errorf("%d replicas after the wait for the end of the scaling", n)
	}
	s.AwaitScaler(t, "store", "idle 1")
	awaitReplicas(s, "store", 1)
	if rows := strings.Fields(s.Exec(t, "store-0", "ls /data/rows")); len(rows) != 3*8 {
		t.Errorf("%d rows are left of 24: %v", len(rows), rows)
	}
	if row := s.Exec(t, "store-0", "cat /data/rows/store-2-7"); row != "row 7 of store-2" {
		t.Errorf("row 7 of store-2 is %q", row)
	}

	s.ScaleScaler(t, "store", 0)
	s.AwaitScaler(t, "store", "failed 1")
	if set := s.Set("store"); *set.Spec.Replicas != 1 || !slices.Contains(s.Events("store"), "Warning "+string(api.HookFailed)) {
		t.Errorf("%d replicas, Events %v", *set.Spec.Replicas, s.Events("store"))
	}
	s.ScaleScaler(t, "store", 2)
	s.Kubectl(t, "", "-n", s.Namespace, "annotate", "scaler", "store", api.RetryAnnotation+"=")
	s.AwaitScaler(t, "store", "idle 2")
	expectNoHooks(t, s)
}

const stubbornDrain = `apiVersion: drydock.dev/v1alpha1
kind: Scaler
metadata:
  name: web
spec:
  target: web
  hooks:
    pre:
      job:
        template:
          spec:
            terminationGracePeriodSeconds: 5
            containers:
              - name: drain
                image: %s
                command: [sh, -c, "trap 'exit 0' TERM; while [ ! -e /tmp/drained ]; do sleep 1 & wait; done"]
`

// TestDrainedHookHasNotSucceeded: the pod of a hook is evicted halfway, and its container exits with 0 on the signal. The Job controller
// counts that as success. The member stays. When the hook has done its work by itself, the member goes.
func TestDrainedHookHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](2)
	s.CreateSet(set)
	drydock(t, s, "--tick", "2s")
	s.Kubectl(t, fmt.Sprintf(stubbornDrain, stage.WorkloadImage), "-n", s.Namespace, "apply", "-f", "-")
	s.AwaitScaler(t, "web", "idle 2")
	s.ScaleScaler(t, "web", 1)
	evict(t, s, awaitHookPod(s))
	s.AwaitScaler(t, "web", "failed 2")
	failed := s.Scaler("web").Status.Failed
	if n := *s.Set("web").Spec.Replicas; n != 2 || failed == nil || failed.Reason != string(api.HookFailed) {
		t.Fatalf("%d replicas after the eviction; failed %+v", n, failed)
	}
	message := fmt.Sprint(s.Scaler("web").Status.Conditions)
	if !strings.Contains(message, "is complete, but") {
		t.Fatalf("the Job controller counts no success, so the test shows nothing: %s", message)
	}

	s.Kubectl(t, "", "-n", s.Namespace, "annotate", "scaler", "web", api.RetryAnnotation+"=")
	s.Exec(t, awaitHookPod(s), "touch /tmp/drained")
	s.AwaitScaler(t, "web", "idle 1")
	awaitReplicas(s, "web", 1)
}

// evict deletes a pod as a drain does.
func evict(t *testing.T, s *stage.Stage, pod string) {
	t.Helper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod}}
	if err := s.Kube.CoreV1().Pods(s.Namespace).EvictV1(context.Background(), eviction); err != nil {
		t.Fatal(err)
	}
}

// awaitHookPod waits until the pod of a hook runs, and returns its name.
func awaitHookPod(s *stage.Stage) string {
	name := ""
	s.Eventually("the pod of a hook runs", func() string {
		pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				name = pod.Name
				return ""
			}
		}
		return fmt.Sprintf("%d pods of hooks", len(pods.Items))
	})
	return name
}

// TestMembersFollowJobs runs examples/autoscale unchanged: the autoscaler asks for members while there are jobs. When
// there are none, the removed members are drained first.
func TestMembersFollowJobs(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Serve(t, config)
	waiting := func(jobs string) {
		metrics.Set(t, s.Kube, s.Namespace, map[string]string{metrics.Pods("jobs_waiting"): jobs})
	}
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	drydock(t, s, "--tick", "2s")
	waiting("25") // of each member, so that there are never enough members
	s.ApplyExample(t, "autoscale", 2)
	s.AwaitScaler(t, "worker", "idle 4")

	waiting("1")
	s.AwaitScaler(t, "worker", "idle 1")
	awaitReplicas(s, "worker", 1)
	expectNoHooks(t, s)
	if told := s.Events("worker"); !slices.Contains(told, "Normal "+string(api.ScalingCompleted)) ||
		slices.Contains(told, "Warning "+string(api.HookFailed)) {
		t.Errorf("Events %v", told)
	}
}

// expectNoHooks waits until no Job of a hook is left.
func expectNoHooks(t *testing.T, s *stage.Stage) {
	t.Helper()
	s.Eventually("no Job is left", func() string {
		jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if n := len(jobs.Items); n > 0 {
			return fmt.Sprintf("%d are there", n)
		}
		return ""
	})
}
