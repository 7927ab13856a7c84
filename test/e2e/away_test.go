//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/stage"
)

// TestDrydockIsAwayForLongerThanLease: a copy has converged and a budget keeps members from stopping when Drydock is
// killed. The mover ends because its lease is not renewed, and no member stops. When Drydock is back, another mover
// brings the copy up to date.
func TestDrydockIsAwayForLongerThanLease(t *testing.T) {
	t.Parallel()
	s := newAcks(t, acksSet(2, api.StrategyRolling))
	s.Patience = moverreport.DefaultLease + 5*time.Minute
	withdraw := s.budgetForAll(t, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(3))})
	first := drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.awaitClosed("disruption budget")
	stage.Stop(first, syscall.SIGKILL)
	s.Eventually("a mover has ended without its lease", func() string {
		movers, err := s.Kube.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: api.OperationLabel})
		if err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(movers.Items, lostLease) {
			return fmt.Sprintf("none of %d", len(movers.Items))
		}
		return ""
	})
	if status := s.Status("web"); anyHeld(status) {
		t.Errorf("a member is held: %+v", status)
	}
	withdraw()
	drydock(t, s.Stage)
	s.expectMovedTo(t, "160Mi")
}

// lostLease reports whether the pod is a mover that got no signal for its final pass in time.
func lostLease(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == moverreport.FinalContainer && c.State.Terminated != nil && c.State.Terminated.ExitCode == moverreport.CodeLeaseLost
	})
}
