package world_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit/build"
)

// TestReadyPodOfNodeWithFastClock: a node whose clock was wrong for a moment leaves a Ready condition of the future, which nothing
// rewrites. Without minReadySeconds, Kubernetes counts the pod as available (k8s.io/kubernetes/pkg/api/v1/pod, IsPodAvailable).
func TestReadyPodOfNodeWithFastClock(t *testing.T) {
	other := build.With(build.PodOf("web", 0, "data"), build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(build.Now.Add(365 * 24 * time.Hour))}}
	}))
	o := build.World(build.Set("web", build.Replicas(2)), other, build.PodOf("web", 1, "data"))
	if why := o.WhyUnsteady(1); why != "" {
		t.Errorf("minReadySeconds is %d, and pod web-0 is ready, but member 1 may not be stopped for a year: %s", o.Set.Spec.MinReadySeconds, why)
	}
}
