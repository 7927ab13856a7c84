package statefulset

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestJobEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		conditions []batchv1.JobCondition
		want       batchv1.JobConditionType
	}{
		"a Job without conditions runs": {},
		"a condition about its end that is not true says nothing": {
			conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionFalse}}},
		"a Job whose pods have ended, and still hold their finalizers, has not ended": {
			conditions: []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}}},
		"complete": {conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue}},
			want: batchv1.JobComplete},
		"failed": {conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}, want: batchv1.JobFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := JobEnd(&batchv1.Job{Status: batchv1.JobStatus{Conditions: row.conditions}}); got.Type != row.want {
				t.Errorf("the Job's end is %q, not %q", got.Type, row.want)
			}
		})
	}
	if got := JobEnd(nil); got.Type != "" {
		t.Errorf("a missing Job ended: %v", got)
	}
}

func TestFailedContainer(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	restarted := corev1.ContainerStatus{Name: "main", LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}
	proxy := corev1.Container{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
	for name, row := range map[string]struct {
		init, main []corev1.ContainerStatus
		sidecars   []corev1.Container
		want       string
	}{
		"no container has failed":      {main: []corev1.ContainerStatus{ended("main", 0)}},
		"an init container has failed": {init: []corev1.ContainerStatus{ended("setup", 1)}, want: "setup"},
		"a container has failed": {init: []corev1.ContainerStatus{ended("setup", 0)},
			main: []corev1.ContainerStatus{ended("main", 2)}, want: "main"},
		"a container that waits for its restart has failed before": {main: []corev1.ContainerStatus{restarted}, want: "main"},
		"a sidecar that ended with an error is not the cause": {init: []corev1.ContainerStatus{ended("proxy", 143)},
			main: []corev1.ContainerStatus{ended("main", 2)}, sidecars: []corev1.Container{proxy}, want: "main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: row.sidecars},
				Status: corev1.PodStatus{InitContainerStatuses: row.init, ContainerStatuses: row.main}}
			got, end := FailedContainer(pod)
			if got != row.want || (end == nil) != (row.want == "") {
				t.Errorf("container %q has failed, with end %v; want %q", got, end, row.want)
			}
		})
	}
}
