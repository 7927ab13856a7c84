package scale

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// maxContainerMessage is the number of bytes that a failure message quotes from a container's termination message.
const maxContainerMessage = 256

// endedHook returns the Job of the current phase if it is complete or has failed, or nil. It ignores the hook onFailure, whose outcome has
// no effect.
func (in Input) endedHook() *batchv1.Job {
	if in.Set == nil {
		return nil
	}
	record, err := api.LoadScale(in.Set)
	if err != nil || !record.Active() || record.Phase == api.Failing {
		return nil
	}
	job := work{Input: in, record: record}.hookJob(hookOf[record.Phase])
	if job == nil || !hasEnded(job) {
		return nil
	}
	return job
}

// failedPod returns the latest failed pod of the Job of the current phase, or nil.
func (in Input) failedPod() *corev1.Pod {
	var failed *corev1.Pod
	if job := in.endedHook(); job != nil {
		for _, pod := range in.HookPods {
			failed = latestFailedPod(failed, pod, job)
		}
	}
	return failed
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
// without a failed pod, unless the pods could not be read.
func (in Input) containerFailure() string {
	pod := in.failedPod()
	switch {
	case pod == nil && in.Kills.Unread != "":
		return "; how it ended is unknown: " + text.Line(in.Kills.Unread, maxContainerMessage)
	case pod == nil:
		return ""
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		end := c.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		words := fmt.Sprintf("; container %s ended with exit code %d", text.Line(c.Name, maxContainerMessage), end.ExitCode)
		if end.Reason == "OOMKilled" {
			words += " (OOMKilled)"
		}
		if message := text.Line(end.Message, maxContainerMessage); message != "" && messageComesFromFile(pod, c.Name) {
			words += ": " + message
		}
		return words
	}
	return ""
}

// messageComesFromFile reports whether the container's message comes only from its termination message file. With the other policy the
// message may be the end of the container's log, and users who may read the Scaler may not be allowed to read that log.
func messageComesFromFile(pod *corev1.Pod, container string) bool {
	spec := pod.Spec
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == container && c.TerminationMessagePolicy == corev1.TerminationMessageReadFile
	})
}
