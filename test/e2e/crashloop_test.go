//go:build cluster

package e2e

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
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
