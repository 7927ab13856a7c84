// Package podend judges how a user's pod ended: a cleanup pod, or the pod of a hook. It is pure.
//
// The phase alone proves nothing. A kubelet before 1.38 reports Succeeded for a pod that it ends itself, if all containers exit with 0
// after SIGTERM (kubernetes/kubernetes#142761): after node pressure, a preemption, the shutdown of the node, or if the pod exceeds a limit
// of its emptyDir or ephemeral storage. The Job controller counts each pod in this phase, also one that was deleted, for example by a
// drain.
package podend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// Reasons of the Events that a kubelet writes before it ends a pod or a container (kubernetes pkg/kubelet/events/event.go, and
// pkg/kubelet/eviction). The limits of emptyDir and ephemeral storage leave no other trace.
const (
	evicted    = "Evicted"
	preempting = "Preempting"
	killing    = "Killing"
)

// Kills is what was read about early ends of pods.
type Kills struct {
	// Events has an entry for each pod whose Events were read: one that tells of an early end, or nil. The end of a pod without an entry
	// proves nothing.
	Events map[types.UID]*corev1.Event
}

// Note keeps the Event if it tells of an early end of the pod. One such Event is enough.
func (k Kills) Note(pod *corev1.Pod, e *corev1.Event) {
	if k.Events[pod.UID] == nil && ends(pod, e) {
		k.Events[pod.UID] = e.DeepCopy()
	}
}

// NeedsKills reports whether the Events of the pod decide its success. Everything else speaks for it.
func NeedsKills(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded && messageOf(pod) == "" && traceInPod(pod) == ""
}

// Judge reports whether the pod has finished its work. If it has ended with the phase Succeeded and this proves nothing, early says why,
// as a predicate of the pod. For a pod that runs or has failed, early is empty.
//
// A user who wants certainty gives the pod the annotation drydock.dev/success-message. Then the message of a container decides, and nothing
// else.
func Judge(pod *corev1.Pod, kills Kills) (succeeded bool, early string) {
	if pod.Status.Phase != corev1.PodSucceeded {
		return false, ""
	}
	if want := messageOf(pod); want != "" {
		if hasMessage(pod, want) {
			return true, ""
		}
		return false, fmt.Sprintf("has not written %.80q, the value of its annotation %s, to the termination message of a container", want,
			api.SuccessMessageAnnotation)
	}
	if trace := traceInPod(pod); trace != "" {
		return false, trace
	}
	switch kill, read := kills.Events[pod.UID]; {
	case kill != nil:
		return false, "was ended by its kubelet: " + quoted(kill.Reason, kill.Message)
	case !read:
		return false, "ended without known Events"
	}
	return true, ""
}

// JudgeJob judges the end of a Job that the Job controller counts as complete. Pods may have pods of other owners. If the Job's pod is
// gone, nothing proves that it did its work.
func JudgeJob(job *batchv1.Job, pods []*corev1.Pod, kills Kills) (succeeded bool, early string) {
	early = "its pod is gone, so nothing shows how it ended"
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		done, why := Judge(pod, kills)
		if done {
			return true, ""
		}
		if why != "" {
			early = fmt.Sprintf("pod %s %s", pod.Name, why)
		}
	}
	return false, early
}

// quoted returns a reason and a message of the kubelet, which may be empty, on one line.
func quoted(reason, message string) string {
	return strings.TrimRight(text.Line(reason+" "+message, maxMessage), " .")
}

// maxMessage is how many bytes of a kubelet's message are quoted.
const maxMessage = 200

// messageOf returns the termination message that alone proves the pod's success, or "" if the user has not asked for one.
func messageOf(pod *corev1.Pod) string {
	return strings.TrimSpace(pod.Annotations[api.SuccessMessageAnnotation])
}

// hasMessage reports whether a line of a container's termination message is the text.
func hasMessage(pod *corev1.Pod, want string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		end := c.State.Terminated
		is := func(line string) bool { return strings.TrimSpace(line) == want }
		return end != nil && slices.ContainsFunc(strings.Split(end.Message, "\n"), is)
	})
}

// traceInPod returns what the pod itself says about an early end, or "".
func traceInPod(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil { // the clocks differ, so no time shows whether the containers ended before
		return "was deleted"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return "was disrupted: " + quoted(c.Reason, c.Message)
		}
	}
	return ""
}

// ends reports whether the Event tells that the kubelet ended the pod, or a container before it had finished its work.
func ends(pod *corev1.Pod, e *corev1.Event) bool {
	switch {
	case e.InvolvedObject.UID != pod.UID:
		return false
	case e.Reason != killing:
		return e.Reason == evicted || e.Reason == preempting
	}
	name := containerOf(e.InvolvedObject.FieldPath)
	if isSidecar(pod, name) {
		return false // the kubelet ends sidecars when the other containers have ended
	}
	// The kubelet restarts a container whose liveness probe has failed. Only the last run counts. Both times are of the same node. The
	// Event may have full seconds, so only a start in a later second is certain.
	start, told := lastStart(pod, name), ToldAt(e)
	return start.IsZero() || told.IsZero() || !start.Truncate(time.Second).After(told)
}

// ToldAt returns the latest time that the writer of the Event gave it. Its fields depend on the API. It is zero if there is none.
func ToldAt(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// containerOf returns the name of the container in a field path such as spec.containers{NAME}, or "".
func containerOf(path string) string {
	_, name, _ := strings.Cut(path, "{")
	return strings.TrimSuffix(name, "}")
}

func isSidecar(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == container && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// lastStart returns when the last run of the container began. It is zero if that is unknown.
func lastStart(pod *corev1.Pod, container string) time.Time {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.Name == container && c.State.Terminated != nil {
			return c.State.Terminated.StartedAt.Time
		}
	}
	return time.Time{}
}
