package cleanuppod

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// trouble says why the try that the pod is has failed; empty while it has not.
func (in Input) trouble(entry *api.OrdinalStatus, pod *corev1.Pod) string {
	tries := 0
	if entry != nil {
		tries = entry.Tries
	}
	age := in.Now.Sub(pod.CreationTimestamp.Time)
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return fmt.Sprintf("cleanup pod %s failed: %s", pod.Name, ending(pod))
	case failures(pod) > 0 && tries+failures(pod) >= in.Settings.CleanupTries:
		return fmt.Sprintf("cleanup pod %s failed %d times: %s", pod.Name, tries+failures(pod), ending(pod))
	case age > in.Settings.CleanupTimeout:
		return fmt.Sprintf("cleanup pod %s has not ended within %s", pod.Name, in.Settings.CleanupTimeout)
	case in.Now.Sub(progress(pod)) > in.Settings.StartTimeout && pod.Status.Phase != corev1.PodRunning && !runs(pod) && failures(pod) == 0:
		return fmt.Sprintf("cleanup pod %s has not started within %s: %s", pod.Name, in.Settings.StartTimeout, obstacle(pod))
	}
	return ""
}

// runs reports whether a container runs. While it is an init container, the pod is Pending still.
func runs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(statuses(pod), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// progress is when the latest init container has ended, or when the pod was made.
func progress(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range statuses(pod) {
		if t := ended(c); t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// hasSucceeded reports whether the pod's containers have done their work: they ended well, and of themselves. A container that
// is told to end because its pod is deleted may exit with 0, and the kubelet then calls the pod succeeded, too. When the kubelet has
// unmounted the volumes, it deletes the pod once more, without a grace period, and the time of that is all that is known then (kubernetes
// staging apiserver pkg/registry/generic/registry/store.go, markAsDeleting). Times are in whole seconds; in doubt the cleanup runs again.
func hasSucceeded(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodSucceeded || pod.DeletionTimestamp == nil {
		return pod.Status.Phase == corev1.PodSucceeded
	}
	grace := pod.DeletionGracePeriodSeconds
	if grace == nil || *grace == 0 {
		return false
	}
	asked := pod.DeletionTimestamp.Add(-time.Duration(*grace) * time.Second)
	late := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || !c.State.Terminated.FinishedAt.Time.Before(asked)
	}
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, late)
}

// failures is how often a container of the pod has ended with a failure. The kubelet starts it again and counts.
func failures(pod *corev1.Pod) int {
	most := 0
	for _, c := range statuses(pod) {
		n := int(c.RestartCount)
		if c.State.Running == nil && ended(c) != nil && ended(c).ExitCode != 0 {
			n++ // it has not been started again yet
		}
		most = max(most, n)
	}
	return most
}

// statuses are those of the containers that have to end: init containers that run beside the others do not.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	beside := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		beside[c.Name] = c.RestartPolicy != nil
	}
	var all []corev1.ContainerStatus
	for _, c := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if !beside[c.Name] {
			all = append(all, c)
		}
	}
	return all
}

// ended is how the container's latest run ended; nil if none has.
func ended(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// ending says how the pod failed: its container's exit code and last words, or what the kubelet says of the pod.
func ending(pod *corev1.Pod) string {
	for _, c := range statuses(pod) {
		t := ended(c)
		if t == nil || t.ExitCode == 0 {
			continue
		}
		text := fmt.Sprintf("container %s exited with %d", c.Name, t.ExitCode)
		if t.Reason != "" && t.Reason != "Error" {
			text += " (" + t.Reason + ")"
		}
		if last := lastWords(t.Message); last != "" {
			text += ", its last words: " + last
		}
		return text
	}
	return strings.TrimSpace(pod.Status.Reason + " " + lastWords(pod.Status.Message))
}

// obstacle says why the pod does not start.
func obstacle(pod *corev1.Pod) string {
	for _, c := range statuses(pod) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return strings.TrimSpace(fmt.Sprintf("container %s: %s %s", c.Name, w.Reason, lastWords(w.Message)))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSpace(c.Reason + " " + lastWords(c.Message))
		}
	}
	return "it is " + string(pod.Status.Phase)
}

const (
	mostLines  = 5
	mostLetter = 400
	mostQuoted = 1000
)

// clip is the beginning of what others say at unknown length.
func clip(text string) string {
	if len(text) <= mostQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:mostQuoted], "") + "…"
}

// lastWords are the last lines of what a container has printed, on one line. What it prints is anybody's.
func lastWords(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = lines[max(0, len(lines)-mostLines):]
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(strings.Join(lines, " | "), ""))
	if len(printable) > mostLetter {
		printable = "…" + strings.ToValidUTF8(printable[len(printable)-mostLetter:], "")
	}
	return strings.TrimSpace(printable)
}
