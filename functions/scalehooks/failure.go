package scalehooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/scale"
)

// longestReport is how many bytes of a container's message a failure quotes.
const longestReport = 256

// failedHook returns the failed Job of the present phase; nil if there is none. The hook onFailure is left out: its failure has no effect.
func (in Input) failedHook() *batchv1.Job {
	if in.Set == nil {
		return nil
	}
	record, err := api.LoadScale(in.Set)
	if err != nil || !record.Active() || record.Phase == api.Failing {
		return nil
	}
	job := work{Input: in, record: record}.job(hookOf[record.Phase])
	if job == nil || scale.Ended(job, batchv1.JobFailed) == nil {
		return nil
	}
	return job
}

// later returns pod if it is a failed pod of the Job and newer than known, otherwise known. The owner reference decides, since any pod may
// have the label of a Job.
func later(known, pod *corev1.Pod, job *batchv1.Job) *corev1.Pod {
	switch {
	case pod.Status.Phase != corev1.PodFailed || !metav1.IsControlledBy(pod, job):
		return known
	case known != nil && !known.CreationTimestamp.Before(&pod.CreationTimestamp):
		return known
	}
	return pod
}

// failure returns the exit code and the message of the first container that failed, to append to a sentence; empty if there is no pod.
func (in Input) failure() string {
	if in.FailedPod == nil {
		return ""
	}
	status := in.FailedPod.Status
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		end := c.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		text := fmt.Sprintf("; container %s ended with exit code %d", printable(c.Name, longestReport), end.ExitCode)
		if end.Reason == "OOMKilled" {
			text += " (OOMKilled)"
		}
		if message := printable(end.Message, longestReport); message != "" && in.writesItself(c.Name) {
			text += ": " + message
		}
		return text
	}
	return ""
}

// writesItself reports whether the container's message comes from its termination log only. With another policy it may be the end of its
// output, which people who read the Scaler may not see.
func (in Input) writesItself(container string) bool {
	spec := in.FailedPod.Spec
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == container && c.TerminationMessagePolicy == corev1.TerminationMessageReadFile
	})
}

// printable returns the words of a container on one line, without characters that a terminal acts on.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	return short(strings.Join(strings.Fields(text), " "), limit)
}
