//go:build cluster

package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestMoversOfStoppedSetArePlacedLikeItsPods: the API server accepts the scheduling rules that Drydock derives from the
// set. The mover of the second claim follows the first one to its node.
func TestMoversOfStoppedSetArePlacedLikeItsPods(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data", "wal")
	apart := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: set.Spec.Selector}
	pod := &set.Spec.Template.Spec
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart}}}
	pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: set.Spec.Selector,
			MatchLabelKeys: []string{"controller-revision-hash"}}}
	pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *kit.Quantity("2Gi")}
	w.CreateSet(set)
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	w.Scale("web", 0)
	w.Eventually("the set is at zero", func() string {
		if w.Set("web").Status.Replicas != 0 {
			return "it is not"
		}
		return ""
	})
	w.Node.Set(func(n *kit.Node) { n.Hold = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,wal=128Mi"})
	var list *corev1.PodList
	w.Eventually("two movers run", func() string {
		_ = drive.Tick(context.Background())
		var err error
		if list, err = w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(),
			metav1.ListOptions{LabelSelector: api.OperationLabel}); err != nil {
			return err.Error()
		}
		if len(list.Items) != 2 {
			return describe(w.Status("web"))
		}
		return ""
	})
	choosing := 0
	for _, mover := range list.Items {
		if mover.Labels[api.MemberLabel] != "web-0" {
			continue
		}
		choosing++
		memory := mover.Spec.Containers[0].Resources.Requests.Memory()
		if mover.Spec.Affinity.PodAntiAffinity == nil || len(mover.Spec.TopologySpreadConstraints) != 1 || memory.String() != "2Gi" {
			t.Errorf("%+v", mover.Spec)
		}
	}
	if choosing != 1 {
		t.Errorf("%d movers choose a node for web-0", choosing)
	}
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
}
