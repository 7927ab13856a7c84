//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestGateOfRollingResize: a set with the update strategy OnDelete has a newer pod template, then a partition keeps old pods. The resize
// does not begin before these are resolved. Then the budget, which covers all pods of the namespace, fails because of a Job's pod, and the
// set gets a newer pod template once more. No member stops meanwhile. A member must be ready for three seconds before the next one stops.
func TestGateOfRollingResize(t *testing.T) {
	t.Parallel()
	const budgetFails = "jobs.batch does not implement the scale subresource"
	onDelete := func(version int) string {
		return fmt.Sprintf(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null},
			"template":{"metadata":{"annotations":{"version":"%d"}}}}}`, version)
	}
	partition := func(n int) string {
		return fmt.Sprintf(`{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":%d}}}}`, n)
	}
	set := acksSet(2, api.StrategyRolling)
	set.Spec.MinReadySeconds = 3
	s := newAcks(t, set)
	withdraw := s.budgetForAll(t, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("34%"))})
	s.PatchSet("web", onDelete(2))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.awaitWaiting(t, "web-1", "the update strategy is OnDelete")
	s.PatchSet("web", partition(1))
	s.awaitWaiting(t, "a partition keeps pods of an older revision")
	s.PatchSet("web", partition(0))
	s.awaitClosed(budgetFails)
	s.PatchSet("web", onDelete(3))
	s.awaitClosed("web-1", "revision")
	s.PatchSet("web", partition(0))
	s.awaitClosed(budgetFails)
	withdraw()
	s.budgetForAll(t, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))})
	status := s.expectMovedTo(t, "160Mi")
	if pause := status.Member(0).HeldAt.Sub(status.Member(1).ReadyAt.Time); pause < 2*time.Second { // both are rounded
		t.Errorf("member 0 was held %s after member 1 was ready", pause)
	}
}

// awaitWaiting waits until an Event with the words says why the resize does not begin yet.
func (s *acks) awaitWaiting(t *testing.T, words ...string) {
	t.Helper()
	s.Eventually(fmt.Sprintf("the resize waits: %q", words), func() string {
		if status := s.Status("web"); status != nil {
			return "it has begun"
		}
		for _, e := range story(t, s.Stage, "web") {
			if e.Reason == string(api.RolloutRunning) && containsAll(e.Message, words) {
				return ""
			}
		}
		return "there is no such Event"
	})
}

// budgetForAll creates a budget for all pods of the namespace, and returns a function that deletes it.
func (s *acks) budgetForAll(t *testing.T, spec policyv1.PodDisruptionBudgetSpec) (withdraw func()) {
	t.Helper()
	spec.Selector = &metav1.LabelSelector{}
	budgets := s.Kube.PolicyV1().PodDisruptionBudgets(s.Namespace)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{GenerateName: "all-"}, Spec: spec}
	made, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("the budget is in force", func() string {
		if now, err := budgets.Get(t.Context(), made.Name, metav1.GetOptions{}); err != nil ||
			now.Status.ObservedGeneration < now.Generation {
			return fmt.Sprintf("it is not: %v", err)
		}
		return ""
	})
	return func() {
		if err := budgets.Delete(t.Context(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitClosed waits until the record is GateClosed, with a message that has every word, while no member is held.
func (s *acks) awaitClosed(words ...string) {
	s.Eventually(fmt.Sprintf("the gate is closed: %q", words), func() string {
		status := s.Status("web")
		if status == nil {
			return "there is no status"
		}
		if anyHeld(status) {
			return "a member is held"
		}
		if status.Reason != api.GateClosed || !containsAll(status.Message, words) {
			return string(status.Reason) + ": " + status.Message
		}
		return ""
	})
}

const stubbornHook = `metadata: {labels: {hook: before}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: switchover
      image: %s
      command: [sh, -c, "trap 'exit 0' TERM; while [ ! -e /tmp/switched ]; do sleep 1 & wait; done"]
`

// TestDrainedHookStopsNoMember: the pod of the hook before a member is evicted halfway, and its container exits with 0 on the signal. The
// Job controller counts that as success. The member is not stopped. The next hook ends by itself, and the member is moved.
func TestDrainedHookStopsNoMember(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](1)
	set.Annotations[api.BeforeMemberAnnotation] = fmt.Sprintf(stubbornHook, stage.WorkloadImage)
	s.CreateSet(set)
	pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	drydock(t, s, "--tick", "2s")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	evict(t, s, awaitHookPod(s))
	if status := s.AwaitEnd(t); status.Phase != api.Failed || status.Reason != api.HookFailed ||
		!strings.Contains(status.Message, "is complete, but") {
		t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
	if now, err := s.Kube.CoreV1().Pods(s.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil || now.UID != pod.UID {
		t.Fatalf("the pod was stopped: %v", err)
	}

	s.Kubectl(t, "", "-n", s.Namespace, "annotate", "sts", "web", api.RetryAnnotation+"=")
	s.Exec(t, awaitHookPod(s), "touch /tmp/switched")
	if status := s.AwaitEnd(t); status.Phase != api.Succeeded {
		t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
}

// anyHeld reports whether a member was stopped.
func anyHeld(status *api.Resize) bool {
	return slices.ContainsFunc(status.Members, func(m api.Member) bool { return m.HeldAt != nil })
}
