package restore

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestOrphanWithContainerNamedLockKeepsRunning: the user's pod has a second container named lock. The set was deleted with orphan
// propagation, as several operators do, after the pod got its hold and before it was told to stop (a PodDisruptionBudget refused). The pod
// must keep running.
func TestOrphanWithContainerNamedLockKeepsRunning(t *testing.T) {
	orphan := build.Edit(func(p *corev1.Pod) {
		p.OwnerReferences = nil
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "lock"})
	})
	p := Decide(situation(journalOf(web0), pod(0, build.Held(0), orphan), source(web0), target(web0)))
	if slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && (a.Verb == plan.VerbDelete || a.Verb == plan.VerbEvict)
	}) {
		t.Errorf("a running pod of the user is deleted: %s", p)
	}
}
