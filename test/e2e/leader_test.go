//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// leaders are the pods that had the leader's label, one after the other.
type leaders struct {
	mu    sync.Mutex
	pods  []string
	since []time.Time // they had the label
}

func (l *leaders) note(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.pods); n == 0 || l.pods[n-1] != pod {
		l.pods, l.since = append(l.pods, pod), append(l.since, time.Now())
	}
}

// ledFrom reports whether the pod had the label all the time between first and second.
func (l *leaders) ledFrom(pod string, first, second time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, leader := range l.pods {
		last := i == len(l.pods)-1
		if leader == pod && !l.since[i].After(first) && (last || l.since[i+1].After(second)) {
			return true
		}
	}
	return false
}

// labelLeader plays an operator that keeps the label on the leader's pod only.
func (s service) labelLeader(t *testing.T, leader func(context.Context) string) *leaders {
	t.Helper()
	labelled := &leaders{}
	s.untilEnd(t, func(ctx context.Context) {
		name := leader(ctx)
		if name == "" {
			return
		}
		pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return
		}
		for _, pod := range pods.Items {
			if s.label(ctx, &pod, pod.Name == name) && pod.Name == name {
				labelled.note(name)
			}
		}
	})
	s.Eventually("the leader has its label", func() string {
		pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "role=primary"})
		if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != leader(t.Context()) {
			return "it has not"
		}
		return ""
	})
	return labelled
}

// label adds or removes the leader's label if necessary, and reports whether it has succeeded.
func (s service) label(ctx context.Context, pod *corev1.Pod, leads bool) bool {
	value := "null"
	if leads {
		value = `"primary"`
	}
	if (pod.Labels["role"] != "") == leads {
		return true
	}
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{"role":%s}}}`, pod.UID, value)
	_, err := s.Kube.CoreV1().Pods(s.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err == nil
}

// expectLeaderLast checks that no member was the leader when it stopped before another one. Its label must be two
// seconds old, because an operator may change it while Drydock reads it. Times of the record have whole seconds.
func (s service) expectLeaderLast(t *testing.T, status *api.Resize, labelled *leaders) {
	t.Helper()
	members := slices.SortedFunc(slices.Values(status.Members), func(a, b api.Member) int { return a.HeldAt.Compare(b.HeldAt.Time) })
	var order []int
	for i, m := range members {
		order = append(order, m.Ordinal)
		led := labelled.ledFrom(fmt.Sprintf("web-%d", m.Ordinal), m.HeldAt.Add(-2*time.Second), m.HeldAt.Time)
		t.Logf("member %d was stopped at %s, the leader: %t", m.Ordinal, m.HeldAt.UTC().Format(time.TimeOnly), led)
		if led && i < len(members)-1 {
			t.Errorf("member %d was the leader and was moved before member %d", m.Ordinal, members[i+1].Ordinal)
		}
	}
	s.expectOneByOne(t, status, order...)
}
