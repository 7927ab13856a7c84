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
func (g progress) failScaling(reason api.Reason, message string) plan.Plan {
	if g.record.Phase == api.Failing {
		return g.finishFailed()
	}
	message = fmt.Sprintf("%s. When the cause is removed, retry: kubectl annotate -n %s scaler %s %s=", text.Clip(message, maxQuote),
		g.Namespace, g.scaler.Name, api.RetryAnnotation)
	if g.scaler.Spec.Hooks.OnFailure == nil {
		return g.endScaling(operation.Fail(g.record, api.Failed, g.Now, reason, message))
	}
	next := g.enterPhase(g.record, api.Failing)
	next.FailedAt, next.Reason, next.Message = g.record.Phase, reason, message
	return g.storeRecord(reason, next)
}

func (g progress) finishFailed() plan.Plan {
	next := operation.Conclude(g.record, api.Failed, g.Now, g.record.Reason, g.record.Message)
	return g.endScaling(next)
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
	job := work{Input: in, record: record}.scaleHooks().hookJob(hookOf[record.Phase])
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
func (g progress) decideFailed() plan.Plan {
	if p := g.stops().tidyStop(g.stops().stopStep()); p.Kind == plan.KindDo {
		return p
	}
	if !scaling.Retried(g.scaler) && !g.Retry && !g.pauseHasEnded() {
		if p := g.deleteFinishedHooks(g.record); p.Kind == plan.KindDo {
			return p
		}
		return g.report(nil)
	}
	wanted, live := g.wantedAfterFailure(), statefulset.Replicas(g.Set)
	// the hooks have run for other members, or the record names no valid phase
	if wanted != g.record.Target || g.membersChanged() || !canFailIn(g.record.FailedAt) {
		if wanted == live {
			return g.recordLiveCount(live)
		}
		return g.beginScaling(wanted)
	}
	if err := g.scaleHooks().validateHooks(); err != nil {
		return g.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	next := g.enterPhase(g.newRecord(g.record.FailedAt, g.record.Previous, g.record.Target), g.record.FailedAt)
	next.Reason, next.Message = api.Retrying, fmt.Sprintf("retrying from stage %s", stages[next.Phase])
	return g.storeRecord(api.Retrying, next, g.eventFor(next, false))
}

// wantedAfterFailure returns the count for the next scaling. A manifest without spec.replicas may have replaced the Scaler.
func (g progress) wantedAfterFailure() int32 {
	wanted := ptr.Deref(g.wanted(), g.record.Target)
	if g.pauseHasEnded() {
		wanted = ptr.Deref(g.wanted(), g.countBeforePause())
	}
	if g.losesPausedMembers(wanted) {
		return g.pausedCount()
	}
	return wanted
}

// pauseHasEnded reports whether the failed scaling was a stop, and nothing holds the set any more. The members then start again, as after a
// stop that succeeded.
func (g progress) pauseHasEnded() bool {
	return g.record.Paused && g.record.Target == 0 && !g.held() && ptr.Deref(g.scaler.Spec.Replicas, g.countBeforePause()) > 0
}

// countBeforePause returns the count before the stop of the failed scaling, which may not have stopped anything.
func (g progress) countBeforePause() int32 { return max(g.pausedCount(), g.record.Previous) }

// canFailIn reports whether a scaling can fail in the phase. A record written by another client may name any phase.
func canFailIn(phase api.Phase) bool {
	return phase == api.PreScaling || phase == api.Scaling || phase == api.PostScaling
}

// membersChanged reports whether the set's members differ from the members after the failed scaling.
func (g progress) membersChanged() bool {
	expected := g.record.Target
	if g.record.FailedAt == api.PreScaling {
		expected = g.record.Previous
	}
	return statefulset.Replicas(g.Set) != expected || statefulset.Start(g.Set) != g.record.Start
}
