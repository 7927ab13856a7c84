//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/stage"
)

// applyEachSecond applies the manifest like GitOps. If the set is missing, this creates it.
func (s *acks) applyEachSecond(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	set.APIVersion, set.Kind = "apps/v1", "StatefulSet"
	manifest, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	s.untilEnd(t, func(ctx context.Context) {
		_, _ = s.Kube.AppsV1().StatefulSets(s.Namespace).Patch(ctx, set.Name, types.ApplyPatchType, manifest,
			// from the first stop on it is rejected, because of its templates
			metav1.PatchOptions{FieldManager: "gitops", Force: ptr.To(true)})
		pause(ctx, time.Second)
	})
}

func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// moverOf returns the mover of the member, or nil.
func (s *acks) moverOf(t *testing.T, ordinal int) *corev1.Pod {
	t.Helper()
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: api.OperationLabel})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		link, err := api.LoadLink(&pods.Items[i])
		if err == nil && link.Role != api.RoleHeld && ptr.Deref(link.Member, -1) == ordinal && pods.Items[i].DeletionTimestamp == nil {
			return &pods.Items[i]
		}
	}
	return nil
}

// evict evicts a pod like a drain.
func (s *acks) evict(ctx context.Context, pod string) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: pod}}
	return s.Kube.CoreV1().Pods(s.Namespace).EvictV1(ctx, eviction)
}

// final reports whether the mover has made its first passes and waits for the signal that its member has stopped.
func final(mover *corev1.Pod) bool {
	return slices.ContainsFunc(mover.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == moverreport.FinalContainer && c.State.Running != nil
	})
}

// TestRollingResizeBesideOtherClients: a client applies a manifest with the old templates every second. Before the
// first stop a drain evicts a mover, and a client sends a false signal to the next one. Then the set is scaled up and
// down, and members are drained.
func TestRollingResizeBesideOtherClients(t *testing.T) {
	t.Parallel()
	manifest := acksSet(served, api.StrategyRolling)
	manifest.Annotations[api.ResizeAnnotation] = "data=160Mi@" + stage.OtherClass
	s := newAcks(t, manifest.DeepCopy())
	// the applied manifest may create the set first more than once
	s.Patience = 10 * time.Minute
	// a mover waits until it allows a stop
	s.budget(t, manifest, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(served))})
	s.applyEachSecond(t, manifest)
	drydock(t, s.Stage)
	s.AwaitMember(t, api.MemberWaiting)
	ctx, pods := t.Context(), s.Kube.CoreV1().Pods(s.Namespace)
	evicted := s.moverOf(t, 2)
	if err := s.evict(ctx, evicted.Name); err != nil {
		t.Fatal(err)
	}
	var replaced *corev1.Pod
	s.Eventually("another mover waits", func() string {
		if replaced = s.moverOf(t, 2); replaced == nil || replaced.UID == evicted.UID || !final(replaced) {
			return "none does"
		}
		return ""
	})
	signal := moverreport.Signal{Hold: string(evicted.UID), Attempt: 1}.Encode()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, moverreport.SignalAnnotation, signal)
	if _, err := pods.Patch(ctx, replaced.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.PolicyV1().PodDisruptionBudgets(s.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s.budget(t, manifest, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	least := s.leastReady(t, func() { s.scaleUntilMoved(t) })
	if least < served-1 {
		t.Errorf("%d of the members were ready", least)
	}
	s.expectWhole(t)
}

// scalings is how often the set is scaled while a member may be held. After four stops of a member that others start, a resize fails; the
// last scaling keeps the additional member until it has moved. It is odd.
const scalings = 5

// scaleUntilMoved drains two members, and scales the set up and down, until every claim has the other class, including
// the claim of the removed member. Another operation begins if the applied manifest has created the set just before
// Drydock, and for a late claim.
func (s *acks) scaleUntilMoved(t *testing.T) {
	t.Helper()
	operations, scaled, times, up, drained := map[string]bool{}, time.Now(), 0, false, []string{"web-0", "web-1"}
	s.Eventually("every claim is moved", func() string {
		status := s.Status("web")
		if status == nil {
			return "there is no status"
		}
		operations[status.Operation] = true
		if len(drained) > 0 && s.evict(t.Context(), drained[0]) == nil { // the budget allows it if all members are available
			drained = drained[1:]
		}
		stays := up && times >= scalings && !s.moved(t)
		if !stays && time.Since(scaled) > 6*time.Second { // while a member is held, the eviction of another one is rejected
			up, scaled, times = !up && !s.moved(t), time.Now(), times+1
			_ = s.TryScaleTo("web", map[bool]int32{true: served + 1, false: served}[up])
		}
		if !status.Phase.Terminal() || up || len(drained) > 0 || !s.moved(t) {
			return fmt.Sprintf("%s %s: %s", status.Phase, status.Reason, status.Message)
		}
		return ""
	})
	t.Logf("%d operations", len(operations))
}

// moved reports whether all claims of the set have the other class.
func (s *acks) moved(t *testing.T) bool {
	t.Helper()
	claims, err := s.Kube.CoreV1().PersistentVolumeClaims(s.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return *c.Spec.StorageClassName != stage.OtherClass
	})
}

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

// TestSetIsDeletedInEveryWayDuringResize: a client deletes the set and creates it again with its old templates and its
// request. It is deleted in the foreground while members are held, in the background while a mover waits, and without
// its pods during a copy. Each time Drydock reverts its work and begins again.
func TestSetIsDeletedInEveryWayDuringResize(t *testing.T) {
	t.Parallel()
	manifest := stage.WithSlowStop(3, acksSet(2, api.StrategyWhole))
	manifest.Annotations[api.ResizeAnnotation] = "data=160Mi"
	s := newAcks(t, manifest.DeepCopy())
	drydock(t, s.Stage)
	for _, step := range []struct {
		phase api.MemberPhase
		how   metav1.DeletionPropagation
	}{
		{api.MemberStopping, metav1.DeletePropagationForeground},
		{api.MemberWaiting, metav1.DeletePropagationBackground},
		{api.MemberCopying, metav1.DeletePropagationOrphan},
	} {
		s.AwaitMember(t, step.phase)
		s.DeleteSet("web", step.how)
		s.createAgain(t, manifest.DeepCopy())
	}
	s.expectMovedTo(t, "160Mi")
}

// createAgain creates the set, and tries again until it exists.
func (s *acks) createAgain(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	set.Namespace = s.Namespace
	s.Eventually("the set is created again", func() string {
		_, err := s.Kube.AppsV1().StatefulSets(s.Namespace).Create(t.Context(), set, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
}
