package cleanuppod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// tryFailure returns why the pod's try failed, or "" while it has not.
func (r round) tryFailure(entry *api.OrdinalStatus, pod *corev1.Pod) string {
	tries := 0
	if entry != nil {
		tries = entry.Tries
	}
	age := r.Now.Sub(pod.CreationTimestamp.Time)
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("cleanup pod %s was deleted before it had finished its work", pod.Name)
	case pod.Status.Phase == corev1.PodFailed:
		return fmt.Sprintf("cleanup pod %s failed: %s", pod.Name, failureText(pod))
	case failures(pod) > 0 && tries+failures(pod) >= r.Settings.CleanupTries:
		return fmt.Sprintf("cleanup pod %s failed %d times: %s", pod.Name, tries+failures(pod), failureText(pod))
	case age > r.Settings.CleanupTimeout:
		return fmt.Sprintf("cleanup pod %s has not ended within %s", pod.Name, r.Settings.CleanupTimeout)
	case r.Now.Sub(lastProgress(pod)) > r.Settings.StartTimeout && pod.Status.Phase != corev1.PodRunning && !hasRunningContainer(pod) &&
		failures(pod) == 0:
		return fmt.Sprintf("cleanup pod %s has not started within %s: %s", pod.Name, r.Settings.StartTimeout, startObstacle(pod))
	}
	return ""
}

// hasRunningContainer reports whether a container runs. While an init container runs, the pod's phase is Pending.
func hasRunningContainer(pod *corev1.Pod) bool {
	return slices.ContainsFunc(statefulset.MainStatuses(pod), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// lastProgress returns when the latest init container ended, or when the pod was created.
func lastProgress(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range statefulset.MainStatuses(pod) {
		if t := statefulset.LastEnd(c); t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// failures returns how often a container of the pod failed. The kubelet restarts it and counts the restarts.
func failures(pod *corev1.Pod) int {
	most := 0
	for _, c := range statefulset.MainStatuses(pod) {
		n := int(c.RestartCount)
		if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			n = 0 // a kubelet that does not know how the container ended counts a restart
		}
		if c.State.Running == nil && statefulset.LastEnd(c) != nil && statefulset.LastEnd(c).ExitCode != 0 {
			n++ // not restarted yet
		}
		most = max(most, n)
	}
	return most
}

// failureText describes how the pod failed: the exit code and last output of its container, or the kubelet's message.
func failureText(pod *corev1.Pod) string {
	if name, end := statefulset.FailedContainer(pod); end != nil {
		text := fmt.Sprintf("container %s exited with %d", name, end.ExitCode)
		if end.Reason != "" && end.Reason != "Error" {
			text += " (" + end.Reason + ")"
		}
		if last := lastOutput(end.Message); last != "" {
			text += ", its last output: " + last
		}
		return text
	}
	why := strings.TrimSpace(pod.Status.Reason + " " + lastOutput(pod.Status.Message))
	return cmp.Or(why, "the kubelet gives no cause; read its log")
}

// startObstacle describes why the pod does not start.
func startObstacle(pod *corev1.Pod) string {
	for _, c := range statefulset.MainStatuses(pod) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return strings.TrimSpace(fmt.Sprintf("container %s: %s %s", c.Name, w.Reason, lastOutput(w.Message)))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSpace(c.Reason + " " + lastOutput(c.Message))
		}
	}
	return "its phase is " + string(pod.Status.Phase)
}

const (
	maxOutputLines = 5
	maxOutputBytes = 400
	maxQuotedBytes = 1000
)

// lastOutput returns the last lines of a container's output on one line. The output is untrusted, so only printable characters stay.
func lastOutput(output string) string {
	lines := strings.FieldsFunc(output, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = lines[max(0, len(lines)-maxOutputLines):]
	return text.ClipStart(text.Printable(strings.Join(lines, " | ")), maxOutputBytes)
}

// stuck reports whether the pod should have ended some time ago, and only its node can delay it.
func (r round) stuck(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && !slices.Contains(pod.Finalizers, api.CleanupFinalizer) &&
		r.Now.Sub(pod.DeletionTimestamp.Time) > r.Settings.StartTimeout
}

// stuckMessage returns the message about a stuck pod.
func stuckMessage(pod *corev1.Pod) string {
	return fmt.Sprintf("pod %s should have ended at %s and still exists. Check its node", pod.Name,
		pod.DeletionTimestamp.UTC().Format(time.RFC3339))
}

// template returns the set's cleanup pod template, or the problem with it. The API server's answer is known only while the template is
// new.
func (r round) template(record *api.Cleanup) (*corev1.PodTemplateSpec, *cleanup.Problem) {
	if r.isRefused(record) {
		return nil, &cleanup.Problem{Reason: record.Reason, Message: record.Message}
	}
	template, problem := cleanup.Template(r.Set)
	if problem == nil && r.PodRejected != "" {
		problem = &cleanup.Problem{Reason: api.TemplateInvalid,
			Message: "the API server would refuse the cleanup pod: " + text.Clip(r.PodRejected, maxQuotedBytes)}
	}
	return template, problem
}

// isRefused reports whether this template was refused and no retry is requested.
func (r round) isRefused(record *api.Cleanup) bool {
	return record != nil && record.Phase == api.Refused && record.Request == cleanup.Digest(r.Set) && !r.isRetried(record)
}

// newTemplate returns the template if the set's record does not hold a result for it yet, else nil.
func (r round) newTemplate() (*corev1.PodTemplateSpec, *cleanup.Problem) {
	record, err := api.LoadCleanup(r.Set)
	asked := statefulset.CleanupAsked(r.Set) && statefulset.Managed(r.Set) && r.Set.DeletionTimestamp == nil
	judged := record != nil && record.Request == cleanup.Digest(r.Set) && (record.Phase != api.Refused || r.isRefused(record))
	if err != nil || !asked || judged {
		return nil, nil
	}
	return cleanup.Template(r.Set)
}
