//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// acknowledging is a database that appends numbers to a file, and prints each number after its write. A printed number
// is acknowledged.
const acknowledging = `cd /data || exit 1
[ -e sum ] || { dd if=/dev/urandom of=big bs=1M count=8 2>/dev/null; sha256sum big > sum; } || exit 1
touch log && i=$(tail -n 1 log) && : ${i:=0} && touch filled || exit 1
trap exit TERM; while :; do i=$((i+1)); echo $i >> log && echo $i; sleep 0.1 & wait; done`

// acks is a set whose acknowledged numbers are recorded outside its volumes.
type acks struct {
	service
	replicas int
	mu       sync.Mutex
	last     map[string]int // the highest number that the pod with the name has acknowledged
}

// newAcks creates the set, and records the acknowledgements of its pods from now on.
func newAcks(t *testing.T, set *appsv1.StatefulSet) *acks {
	t.Helper()
	s := &acks{service: service{stage.New(t)}, replicas: int(*set.Spec.Replicas), last: map[string]int{}}
	s.Patience = 5 * time.Minute
	s.CreateSet(set)
	for i := range s.replicas {
		pod := fmt.Sprintf("web-%d", i)
		s.untilEnd(t, func(ctx context.Context) { s.follow(ctx, pod) })
	}
	s.Eventually("numbers are acknowledged", func() string {
		if n := len(s.acknowledged()); n < s.replicas {
			return fmt.Sprintf("%d pods do so", n)
		}
		return ""
	})
	return s
}

// acksSet returns a set for newAcks.
func acksSet(replicas int32, strategy api.Strategy) *appsv1.StatefulSet {
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To(replicas)
	set.Annotations[api.StrategyAnnotation] = string(strategy)
	stage.RunScript(&set.Spec.Template.Spec.Containers[0], "/data", acknowledging)
	return set
}

// follow reads the acknowledgements of the pod until its container ends.
func (s *acks) follow(ctx context.Context, pod string) {
	s.readLog(ctx, pod, func(line string) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[pod] = max(s.last[pod], n)
	})
}

func (s *acks) acknowledged() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for pod, n := range s.last {
		all[pod] = n
	}
	return all
}

// expectWhole waits until the set has its replicas. It checks that no acknowledged number is missing and no object of
// Drydock is left.
func (s *acks) expectWhole(t *testing.T) {
	t.Helper()
	s.Eventually("all replicas are ready", func() string {
		set := s.Set("web")
		want := int32(s.replicas)
		if set == nil || *set.Spec.Replicas != want || set.Status.ReadyReplicas != want || set.Status.Replicas != want {
			return "they are not"
		}
		return ""
	})
	for pod, n := range s.acknowledged() {
		lines := strings.Fields(s.Exec(t, pod, "cat /data/log"))
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				t.Fatalf("line %d of %s is %q", i+1, pod, line)
			}
		}
		if len(lines) < n {
			t.Errorf("%s has %d numbers, and has acknowledged %d", pod, len(lines), n)
		}
		s.Exec(t, pod, "cd /data && sha256sum -s -c sum")
		t.Logf("%s has acknowledged %d of %d numbers", pod, n, len(lines))
	}
	s.ExpectNothingLeft(t)
}

// expectMovedTo waits for the success of a resize of every claim, and checks the requested size.
func (s *acks) expectMovedTo(t *testing.T, size string) *api.Resize {
	t.Helper()
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.expectWhole(t)
	for i := range s.replicas {
		if is := s.Claim(fmt.Sprintf("data-web-%d", i)).Spec.Resources.Requests.Storage().String(); is != size {
			t.Errorf("the claim of member %d asks for %s", i, is)
		}
	}
	return status
}

// awaitHeld waits until a pod is held, and returns its name.
func (s *acks) awaitHeld() string {
	var held []string
	s.Eventually("a pod is held", func() string {
		if held = s.HeldPods(); len(held) == 0 {
			return "none is"
		}
		return ""
	})
	return held[0]
}

// crash kills the process of a pod, and waits until its container has restarted. Other processes of the container, such as the shell of
// this command, are killed, too, so the command's result says nothing.
func (s *acks) crash(pod string) {
	s.T.Helper()
	read := func() (*corev1.Pod, int32) {
		p, err := s.Kube.CoreV1().Pods(s.Namespace).Get(context.Background(), pod, metav1.GetOptions{})
		if err != nil {
			s.T.Fatal(err)
		}
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		return p, restarts
	}
	before, restarts := read()
	s.Terminate(pod)
	s.Eventually(pod+" has crashed", func() string {
		now, n := read()
		if now.UID != before.UID {
			s.T.Fatalf("%s was replaced before its container has restarted, so it has not crashed", pod)
		}
		if n <= restarts {
			return fmt.Sprintf("it has %d restarts, as before", n)
		}
		return ""
	})
}

// TestHeldMemberIsForceDeletedAndAnotherOneDies: the held pod is deleted by force during its stop, and the process of
// another member dies at the same time.
func TestHeldMemberIsForceDeletedAndAnotherOneDies(t *testing.T) {
	t.Parallel()
	s := newAcks(t, stage.WithSlowStop(4, acksSet(2, api.StrategyRolling)))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ForceDeletePod(s.awaitHeld())
	s.crash("web-0") // the highest ordinal is held first
	s.expectMovedTo(t, "160Mi")
}
