package statefulset

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// JobEnd returns the condition with which the Job ended: Complete or Failed. Its type is empty while the Job runs, or if there is none. The
// counts of pods in the status are not enough, because a Job may continue after a failed pod.
func JobEnd(job *batchv1.Job) batchv1.JobCondition {
	if job != nil {
		for _, c := range job.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return c
			}
		}
	}
	return batchv1.JobCondition{}
}

// MainStatuses returns the statuses of the containers that have to end for the pod to succeed. Sidecars, which are init containers with a
// restart policy, do not: the kubelet ends them after the others, often with an error.
func MainStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	beside := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		beside[c.Name] = c.RestartPolicy != nil
	}
	return slices.DeleteFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool { return beside[c.Name] })
}

// LastEnd returns how the container's latest finished run ended, or nil.
func LastEnd(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// FailedContainer returns the first container that has ended with an error, and its end. The end is nil if there is none.
func FailedContainer(pod *corev1.Pod) (name string, end *corev1.ContainerStateTerminated) {
	for _, c := range MainStatuses(pod) {
		if end := LastEnd(c); end != nil && end.ExitCode != 0 {
			return c.Name, end
		}
	}
	return "", nil
}
