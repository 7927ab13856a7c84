//go:build cluster

package e2e

import (
	"slices"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// needsRoom ends a database that has no free MiB at its start.
const needsRoom = `dd if=/dev/zero of=/data/scratch bs=1M count=1 2>/dev/null || exit 1; rm /data/scratch
`

// TestCrashLoopingMemberWithFullDisk: the member that cannot start gets its larger volume first, and starts.
func TestCrashLoopingMemberWithFullDisk(t *testing.T) {
	t.Parallel()
	set := acksSet(2, api.StrategyRolling)
	script := &set.Spec.Template.Spec.Containers[0].Command[2]
	*script = needsRoom + *script
	s := newAcks(t, set)
	s.budget(t, set, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("50%"))})
	s.Exec(t, "web-0", "dd if=/dev/zero of=/data/fill bs=64k 2>/dev/null; sync")
	s.crash("web-0")
	s.Eventually("web-0 is in a crash loop", func() string {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if w := pod.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CrashLoopBackOff" {
			return "it is not"
		}
		return ""
	})
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := s.expectMovedTo(t, "160Mi")
	if first, second := status.Member(0), status.Member(1); second.HeldAt.Before(first.ReadyAt) {
		t.Errorf("member 1 was held at %s, and member 0 was ready at %s only", second.HeldAt, first.ReadyAt)
	}
}

// TestNodeAgentsAndControllersRestartWhileMemberIsHeld: the controllers, the container runtime and the kubelet are
// killed and started again while a pod ends, is held, and its mover waits. No other test runs in parallel, because it
// would need them.
func TestNodeAgentsAndControllersRestartWhileMemberIsHeld(t *testing.T) {
	s := newAcks(t, stage.WithSlowStop(4, acksSet(2, api.StrategyRolling)))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.awaitHeld()
	for _, name := range []string{"kube-controller-manager", "containerd", "kubelet"} {
		s.RestartComponent(t, name)
	}
	s.expectMovedTo(t, "160Mi")
}

// TestCleanupOnNodeWithoutDiskSpaceHasNotSucceeded: the kubelet evicts all pods, because less space is free than its threshold. The
// container of the cleanup pod exits with 0 on the signal. The kubelet reports success, or an unknown end if it has removed the container
// before it looked. The claim stays. On the healthy node, the next cleanup pod ends by itself.
// Invariants: I1.
func TestCleanupOnNodeWithoutDiskSpaceHasNotSucceeded(t *testing.T) {
	s := stage.New(t)
	s.CreateSet(cleaned(2, "trap 'exit 0' TERM; while [ ! -e /data/go ]; do sleep 1 & wait; done"))
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	evicted := awaitCleaner(s, "")
	relieve := s.ReconfigureKubelet(t, `
evictionSoft: {nodefs.available: 99%}
evictionSoftGracePeriod: {nodefs.available: 1s}
evictionMaxPodGracePeriod: 30
`)
	t.Log(awaitWarning(t, s, "cleanup pod web-1"))
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	relieve()
	awaitCleaner(s, evicted)
	s.Exec(t, "web-1", "touch /data/go")
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
}
