//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit/stage"
)

// BenchmarkResize measures the time from the request to the end of a resize.
func BenchmarkResize(b *testing.B) {
	s := stage.New(b)
	s.CreateSet(stage.Workload("64Mi"))
	drydock(b, s)
	var all time.Duration
	size := 160
	for b.Loop() {
		all += s.Resize(b, quantity(size))
		size += 32
	}
	b.ReportMetric(all.Seconds()/float64(b.N), "s-resize")
}

func restartPods(t testing.TB, s *stage.Stage) {
	t.Helper()
	err := s.Kube.CoreV1().Pods(s.Namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
}

// outage runs act, and returns how long fewer than all replicas were ready.
func outage(t testing.TB, s *stage.Stage, replicas int, act func()) time.Duration {
	t.Helper()
	began, ended := make(chan time.Time, 1), make(chan time.Time, 1)
	go func() {
		down := false
		for {
			pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
			if err == nil && !down && readyPods(pods.Items) < replicas {
				down = true
				began <- time.Now()
			} else if err == nil && down && readyPods(pods.Items) == replicas {
				ended <- time.Now()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	act()
	start, end := <-began, <-ended
	s.Eventually("the set is ready", func() string {
		if set := s.Set("web"); set == nil || int(set.Status.ReadyReplicas) != replicas || int(*set.Spec.Replicas) != replicas {
			return "it is not"
		}
		return ""
	})
	return end.Sub(start)
}

func readyPods(pods []corev1.Pod) int {
	n := 0
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

func quantity(mebibytes int) string { return fmt.Sprintf("data=%dMi", mebibytes) }
