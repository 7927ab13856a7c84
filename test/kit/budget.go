package kit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	policyapply "k8s.io/client-go/applyconfigurations/policy/v1"

	"drydock.dev/shared/statefulset"
)

// CreateBudget creates or changes a PodDisruptionBudget with the set's maximum of unavailable pods, and waits until it is
// in force.
func (w *World) CreateBudget(set string, most int) {
	w.T.Helper()
	ctx, budgets := context.Background(), w.Kube.PolicyV1().PodDisruptionBudgets(w.Namespace)
	spec := policyapply.PodDisruptionBudgetSpec().
		WithMaxUnavailable(intstr.FromInt(most)).
		WithSelector(metaapply.LabelSelector().WithMatchLabels(map[string]string{"app": set}))
	// An update could conflict with the disruption controller, which writes the status at any moment.
	made, err := budgets.Apply(ctx, policyapply.PodDisruptionBudget(set, w.Namespace).WithSpec(spec),
		metav1.ApplyOptions{FieldManager: "user", Force: true})
	w.must(err)
	w.Eventually("the budget is in force", func() string {
		now, err := budgets.Get(ctx, set, metav1.GetOptions{})
		w.must(err)
		if now.Status.ObservedGeneration < made.Generation {
			return "it is not"
		}
		return ""
	})
}

// Available reports whether the pod is ready and not terminating.
func Available(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && statefulset.PodReady(pod)
}

// UnavailablePods returns the names of the missing, unready and terminating pods among the set's first replicas.
func (w *World) UnavailablePods(set string, replicas int) []string {
	w.T.Helper()
	var away []string
	for ordinal := range replicas {
		name := fmt.Sprintf("%s-%d", set, ordinal)
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.T.Fatalf("reading pod %s: %v", name, err)
		}
		if err != nil || !Available(pod) {
			away = append(away, name)
		}
	}
	return away
}
