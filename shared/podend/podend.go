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

// A kubelet sends its Events asynchronously, so one may arrive after the status of the pod. An end is judged when it is older than
// settling. The API server keeps Events for an hour by default (kube-apiserver --event-ttl). An end that is older than memory is too old.
const (
	settling = 5 * time.Second
	memory   = 45 * time.Minute
	// complete is the number of Events up to which a kubelet has dropped none. It sends 25 at once about an object, and then one in five
	// minutes (client-go tools/record/events_cache.go).
	complete = 20
	// longestJudged is the longest grace period that leaves a quarter of an hour to judge an end.
	longestJudged = 30 * time.Minute
)

// Verdict says whether a pod or a Job has finished its work.
type Verdict int

const (
	Open      Verdict = iota // the pod has not ended, or has failed
	Pending                  // it has ended, and a later look judges it
	Unproven                 // it has ended, and nothing proves that it finished its work
	Succeeded                // it has finished its work
)

// Kills has the observed Events about early ends of pods.
type Kills struct {
	// Events has an entry for each pod whose Events were read. The end of a pod without an entry proves nothing.
	Events map[types.UID]Told
	// Unread says what could not be read, and why. It is empty if all was read.
	Unread string
}

// Told is what the Events about a pod tell.
type Told struct {
	Kill  *corev1.Event // reports an early end; nil if none does
	Count int           // how often the kubelet told something
}

// Note reads an Event about the pod.
func (k Kills) Note(pod *corev1.Pod, e *corev1.Event) {
	told := k.Events[pod.UID]
	if told.Kill == nil && ends(pod, e) {
		told.Kill = e.DeepCopy()
	}
	if e.InvolvedObject.UID == pod.UID && e.Source.Component == "kubelet" {
		told.Count += int(max(e.Count, 1))
	}
	k.Events[pod.UID] = told
}

// NeedsKills reports whether the Events of the pod decide its success. Everything else speaks for it.
func NeedsKills(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded && messageOf(pod) == "" && traceInPod(pod) == ""
}

// Judge judges how the pod ended. For a verdict other than Open and Succeeded, why says the cause, as a predicate of the pod.
//
// A user who wants certainty gives the pod the annotation drydock.dev/success-message. Then the message of a container decides, and nothing
// else.
func Judge(now time.Time, pod *corev1.Pod, kills Kills) (verdict Verdict, why string) {
	if pod.Status.Phase != corev1.PodSucceeded {
		return Open, ""
	}
	if want := messageOf(pod); want != "" {
		if hasMessage(pod, want) {
			return Succeeded, ""
		}
		return Unproven, fmt.Sprintf("has not written %.80q, the value of its annotation %s, to the termination message of a container", want,
			api.SuccessMessageAnnotation)
	}
	if trace := traceInPod(pod); trace != "" {
		return Unproven, trace
	}
	told, read := kills.Events[pod.UID]
	end := endOf(pod)
	switch age := now.Sub(end); {
	case told.Kill != nil:
		return Unproven, "was ended by its kubelet: " + quoted(told.Kill.Reason, told.Kill.Message)
	case told.Count >= complete:
		return Unproven, fmt.Sprintf("has so many Events that its kubelet may have dropped one about its end (the annotation %s proves a "+
			"success in any case)", api.SuccessMessageAnnotation)
	case end.IsZero():
		return Unproven, "does not show when its containers ended"
	case age+longestGrace(&pod.Spec) > memory:
		return Unproven, fmt.Sprintf("ended at %s, and Events about its end may have expired%s (the annotation %s proves a success "+
			"at any time)", end.UTC().Format(time.RFC3339), kills.because(), api.SuccessMessageAnnotation)
	case age < settling:
		return Pending, "has just ended"
	case !read:
		return Pending, "has ended, and Events about its end are unknown" + kills.because()
	}
	return Succeeded, ""
}

// JudgeJob judges a Job that the Job controller counts as complete. Pods may have pods of other owners. One pod that has succeeded is
// enough. If the Job's pod is gone, nothing proves that it did its work.
func JudgeJob(now time.Time, job *batchv1.Job, pods []*corev1.Pod, kills Kills) (verdict Verdict, why string) {
	verdict, why = Unproven, "its pod is gone, so nothing shows how it ended"
	if at := job.Status.CompletionTime; kills.Unread != "" && at != nil && now.Sub(at.Time) < memory {
		verdict, why = Pending, "its pod is unknown"+kills.because()
	}
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		switch of, cause := Judge(now, pod, kills); {
		case of == Succeeded:
			return Succeeded, ""
		case of == Pending, of == Unproven && verdict != Pending:
			verdict, why = of, fmt.Sprintf("pod %s %s", pod.Name, cause)
		}
	}
	return verdict, why
}

// because returns Unread as the end of a sentence.
func (k Kills) because() string {
	if k.Unread == "" {
		return ""
	}
	return ": " + quoted("", k.Unread)
}

// quoted returns a reason and a message, which may be empty, on one line.
func quoted(reason, message string) string {
	return strings.TrimRight(text.Line(strings.TrimSpace(reason+" "+message), maxMessage), " .")
}

// maxMessage is how many bytes of another program's message are quoted.
const maxMessage = 200

// longestMessage is the longest success message, in bytes. A kubelet keeps 12 KiB of termination messages for a pod, in equal parts for its
// containers (kubernetes pkg/kubelet/container/runtime.go, MaxPodTerminationMessageLogLength).
const longestMessage = 256

// Problem returns why no pod of the template could ever be judged to have finished its work, or "".
func Problem(template *corev1.PodTemplateSpec) string {
	message, asked := template.Annotations[api.SuccessMessageAnnotation]
	switch {
	case asked && strings.TrimSpace(message) == "":
		return "annotation " + api.SuccessMessageAnnotation + " of the template is blank. Write a line of text, or remove it"
	case strings.ContainsAny(strings.TrimSpace(message), "\r\n"):
		return "annotation " + api.SuccessMessageAnnotation + " of the template has several lines. Write one line"
	case len(message) > longestMessage:
		return "annotation " + api.SuccessMessageAnnotation + " of the template is longer than 256 bytes. Shorten it"
	case !asked && longestGrace(&template.Spec) > longestJudged:
		return fmt.Sprintf("a grace period of the template is longer than %s, and the API server may forget an early end in that time. "+
			"Shorten it, or ask for a message with the annotation %s", longestJudged, api.SuccessMessageAnnotation)
	}
	return ""
}

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

// traceInPod returns the evidence of an early end in the pod itself, or "".
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

// endOf returns when the last container ended. It is zero if the pod does not show that.
func endOf(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil && end.FinishedAt.After(last) {
			last = end.FinishedAt.Time
		}
	}
	return last
}

// longestGrace returns how much older than the end of the pod an Event about that end may be.
func longestGrace(pod *corev1.PodSpec) time.Duration {
	periods := []*int64{pod.TerminationGracePeriodSeconds}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.StartupProbe} {
			if probe != nil {
				periods = append(periods, probe.TerminationGracePeriodSeconds)
			}
		}
	}
	longest := time.Duration(0)
	for _, seconds := range periods {
		if seconds != nil {
			longest = max(longest, time.Duration(*seconds)*time.Second)
		}
	}
	return longest
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
