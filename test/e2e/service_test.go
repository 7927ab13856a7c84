//go:build cluster

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// evictAll evicts one pod after the other, the highest ordinal first, like a drain. It is the control run.
func (s service) evictAll(t *testing.T) {
	t.Helper()
	pods := s.Kube.CoreV1().Pods(s.Namespace)
	uidOf := func(name string) types.UID {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return pod.UID
	}
	for i := served - 1; i >= 0; i-- {
		name := fmt.Sprintf("web-%d", i)
		was := uidOf(name)
		s.Eventually(name+" is evicted", func() string { // the budget may not know yet that the previous pod is ready
			if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
				Name: name}}); err != nil {
				return err.Error()
			}
			return ""
		})
		s.Eventually(name+" is replaced", func() string {
			if is := uidOf(name); is == "" || is == was {
				return "it is not"
			}
			return ""
		})
		s.awaitReady()
	}
}

// expectMoved checks that the members were moved one after the other, the highest ordinal first, with their data, to
// the other class.
func (s service) expectMoved(t *testing.T, status *api.Resize, before []string) {
	t.Helper()
	if after := s.sums(t); !slices.Equal(before, after) {
		t.Errorf("the data is %v, was %v", after, before)
	}
	s.expectOneByOne(t, status, 2, 1, 0)
}

// expectOneByOne checks that the members were moved to the other class in this order, each after the previous one was
// ready.
func (s service) expectOneByOne(t *testing.T, status *api.Resize, order ...int) {
	t.Helper()
	if len(status.Members) != len(order) {
		t.Errorf("%d members were moved, want %v", len(status.Members), order)
	}
	var before *api.Member
	for _, ordinal := range order {
		m := status.Member(ordinal)
		if m == nil || m.Phase != api.MemberMoved || m.HeldAt == nil || m.ReadyAt == nil {
			t.Fatalf("member %d: %+v", ordinal, m)
		}
		if class := *s.Claim(fmt.Sprintf("data-web-%d", ordinal)).Spec.StorageClassName; class != stage.OtherClass {
			t.Errorf("member %d is of class %s", ordinal, class)
		}
		if before != nil && m.HeldAt.Before(before.ReadyAt) {
			t.Errorf("member %d was held at %s, and member %d was ready at %s only", ordinal, m.HeldAt, before.Ordinal, before.ReadyAt)
		}
		t.Logf("member %d: stopped for %s", ordinal, m.ReadyAt.Sub(m.HeldAt.Time))
		before = m
	}
	s.ExpectNothingLeft(t)
}

// moveToOtherClass resizes the set to the size on the other class, and returns its record. Two members must never be
// unavailable at once.
func (s service) moveToOtherClass(t *testing.T, size string) *api.Resize {
	t.Helper()
	var status *api.Resize
	least := s.leastReady(t, func() {
		s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=" + size + "@" + stage.OtherClass})
		status = s.AwaitEnd(t)
	})
	if status.Phase != api.Succeeded {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	if least < served-1 {
		t.Errorf("%d members were ready", least)
	}
	return status
}

// untilEnd repeats an act every 20 ms until the test ends.
func (s service) untilEnd(t *testing.T, act func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			act(ctx)
			<-time.After(20 * time.Millisecond)
		}
	}()
}

// readLog reads the lines of a pod's log until its container ends.
func (s service) readLog(ctx context.Context, pod string, read func(line string)) {
	log, err := s.Kube.CoreV1().Pods(s.Namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return // the pod does not run now
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		read(lines.Text())
	}
}

// namePods creates the headless Service that gives each pod of the set a name, even if the pod is not ready.
func (s service) namePods(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	names := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: set.Spec.ServiceName}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: set.Spec.Selector.MatchLabels, PublishNotReadyAddresses: true}}
	if _, err := s.Kube.CoreV1().Services(s.Namespace).Create(t.Context(), names, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
