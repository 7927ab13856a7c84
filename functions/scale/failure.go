package scale

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// problem is the reason why a Scaler cannot scale its set.
type problem struct {
	reason    api.Reason
	message   string
	temporary bool // the Scaler continues when something else has ended
}

// maxQuote bounds quoted texts of other programs, in bytes. maxConditionMessage is below the API server's limit for a condition's message.
const (
	maxQuote            = 1024
	maxConditionMessage = 4096
)

// failScaling ends the scaling in its current phase. If the Scaler has a hook onFailure, the hook runs before the scaling ends.
func (w work) failScaling(reason api.Reason, message string) plan.Plan {
	if w.record.Phase == api.Failing {
		return w.finishFailed()
	}
	message = fmt.Sprintf("%s. When the cause is removed, retry: kubectl annotate -n %s scaler %s %s=", text.Clip(message, maxQuote),
		w.Namespace, w.scaler.Name, api.RetryAnnotation)
	if w.scaler.Spec.Hooks.OnFailure == nil {
		return w.endScaling(operation.Fail(w.record, api.Failed, w.Now, reason, message))
	}
	next := w.enterPhase(w.record, api.Failing)
	next.FailedAt, next.Reason, next.Message = w.record.Phase, reason, message
	return w.storeRecord(reason, next)
}

func (w work) finishFailed() plan.Plan {
	next := operation.Conclude(w.record, api.Failed, w.Now, w.record.Reason, w.record.Message)
	return w.endScaling(next)
}

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
	if statefulset.JobEnd(job).Type == "" {
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
	name, end := statefulset.FailedContainer(pod)
	if end == nil {
		return ""
	}
	words := fmt.Sprintf("; container %s ended with exit code %d", text.Line(name, maxContainerMessage), end.ExitCode)
	if end.Reason == "OOMKilled" {
		words += " (OOMKilled)"
	}
	if message := text.Line(end.Message, maxContainerMessage); message != "" && messageComesFromFile(pod, name) {
		words += ": " + message
	}
	return words
}

// messageComesFromFile reports whether the container's message comes only from its termination message file. With the other policy the
// message may be the end of the container's log, and users who may read the Scaler may not be allowed to read that log.
func messageComesFromFile(pod *corev1.Pod, container string) bool {
	spec := pod.Spec
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.Name == container && c.TerminationMessagePolicy == corev1.TerminationMessageReadFile
	})
}

// decideFailed handles a failed scaling. It waits until a user asks for a retry, or until a failed pause ends.
func (w work) decideFailed() plan.Plan {
	if p := w.tidyStop(w.stopStep()); p.Kind == plan.KindDo {
		return p
	}
	if !scaling.Retried(w.scaler) && !w.Retry && !w.pauseHasEnded() {
		if p := w.deleteFinishedHooks(w.record); p.Kind == plan.KindDo {
			return p
		}
		return w.report(nil)
	}
	wanted, live := w.wantedAfterFailure(), statefulset.Replicas(w.Set)
	// the hooks have run for other members, or the record names no valid phase
	if wanted != w.record.Target || w.membersChanged() || !canFailIn(w.record.FailedAt) {
		if wanted == live {
			return w.recordLiveCount(live)
		}
		return w.beginScaling(wanted)
	}
	if err := w.validateHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	next := w.enterPhase(w.newRecord(w.record.FailedAt, w.record.Previous, w.record.Target), w.record.FailedAt)
	next.Reason, next.Message = api.Retrying, fmt.Sprintf("retrying from stage %s", stages[next.Phase])
	return w.storeRecord(api.Retrying, next, w.eventFor(next, false))
}

// wantedAfterFailure returns the count for the next scaling. A manifest without spec.replicas may have replaced the Scaler.
func (w work) wantedAfterFailure() int32 {
	wanted := ptr.Deref(w.wanted(), w.record.Target)
	if w.pauseHasEnded() {
		wanted = ptr.Deref(w.wanted(), w.countBeforePause())
	}
	if w.losesPausedMembers(wanted) {
		return w.pausedCount()
	}
	return wanted
}

// pauseHasEnded reports whether the failed scaling was a stop, and nothing holds the set any more. The members then start again, as after a
// stop that succeeded.
func (w work) pauseHasEnded() bool {
	return w.record.Paused && w.record.Target == 0 && !w.held() && ptr.Deref(w.scaler.Spec.Replicas, w.countBeforePause()) > 0
}

// countBeforePause returns the count before the stop of the failed scaling, which may not have stopped anything.
func (w work) countBeforePause() int32 { return max(w.pausedCount(), w.record.Previous) }

// canFailIn reports whether a scaling can fail in the phase. A record written by another client may name any phase.
func canFailIn(phase api.Phase) bool {
	return phase == api.PreScaling || phase == api.Scaling || phase == api.PostScaling
}

// membersChanged reports whether the set's members differ from the members after the failed scaling.
func (w work) membersChanged() bool {
	expected := w.record.Target
	if w.record.FailedAt == api.PreScaling {
		expected = w.record.Previous
	}
	return statefulset.Replicas(w.Set) != expected || statefulset.Start(w.Set) != w.record.Start
}
