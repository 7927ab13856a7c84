package kit

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestNodeReportsInitContainers: an init container has ended before the pod is ready, and a sidecar runs with it. After the end of the pod,
// the node has reported the end of each container.
func TestNodeReportsInitContainers(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "prepare"}, {Name: "log", RestartPolicy: always}},
		Containers: []corev1.Container{{Name: "db"}}}}
	states := func(s corev1.PodStatus) (all []string) {
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			all = append(all, fmt.Sprintf("%s running %t, ended %t", c.Name, c.State.Running != nil, c.State.Terminated != nil))
		}
		return all
	}
	pod.Status = startedStatus(pod)
	if diff := cmp.Diff([]string{"prepare running false, ended true", "log running true, ended false", "db running true, ended false"},
		states(pod.Status)); diff != "" {
		t.Errorf("started: %s", diff)
	}
	if diff := cmp.Diff([]string{"prepare running false, ended true", "log running false, ended true", "db running false, ended true"},
		states(stoppedStatus(pod))); diff != "" {
		t.Errorf("ended: %s", diff)
	}
}
