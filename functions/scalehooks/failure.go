package scalehooks

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/text"
)

// maxContainerMessage is the number of bytes that a failure message quotes from a container's termination message.
const maxContainerMessage = 256

// failedHook returns the failed Job of the current phase, or nil. It ignores the hook onFailure, whose failure has no effect.
func (in Input) failedHook() *batchv1.Job {
	if in.Set == nil {
		return nil
	}
	record, err := api.LoadScale(in.Set)
	if err != nil || !record.Active() || record.Phase == api.Failing {
		return nil
	}
	job := work{Input: in, record: record}.hookJob(hookOf[record.Phase])
	if job == nil || scale.EndCondition(job, batchv1.JobFailed) == nil {
		return nil
	}
	return job
}

// latestFailedPod returns pod if it is a failed pod of the Job and newer than known, otherwise known. The owner reference decides, because
// any pod may carry the label of a Job.
func latestFailedPod(known, pod *corev1.Pod, job *batchv1.Job) *corev1.Pod {
	switch {
	case pod.Status.Phase != corev1.PodFailed || !metav1.IsControlledBy(pod, job):
		return known
	case known != nil && !known.CreationTimestamp.Before(&pod.CreationTimestamp):
		return known
	}
	return pod
}

// containerFailure returns the exit code and termination message of the first failed container, as the end of a sentence. It is empty
// without a failed pod.
func (in Input) containerFailure() string {
	if in.FailedPod == nil {
		return ""
	}
	status := in.FailedPod.Status
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		end := c.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		words := fmt.Sprintf("; container %s ended with exit code %d", text.Line(c.Name, maxContainerMessage), end.ExitCode)
		if end.Reason == "OOMKilled" {
			words += " (OOMKilled)"
		}
		if message := text.Line(end.Message, maxContainerMessage); message != "" && in.messageComesFromFile(c.Name) {
			words += ": " + message
		}
		return words
	}
	return ""
}

// messageComesFromFile reports whether the container's message comes only from its termination message file. With the other policy the
// message may be the end of the container's log, and users who may read the Scaler may not be allowed to read that log.
func (in Input) messageComesFromFile(container string) bool {
	spec := in.FailedPod.Spec
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == container && c.TerminationMessagePolicy == corev1.TerminationMessageReadFile
	})
}
