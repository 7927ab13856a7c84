package backup

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
)

// copyClaims starts movers up to the cap, takes in what they report, and hands over when every copy is verified. What it knows is
// stored before a mover is made: a copy that is not known to be of a quiet set is none.
func copyClaims(in Input, status *api.Resize) plan.Plan {
	next := status.Clone()
	movers := &starter{free: slots(in, status) - unfinished(in, status, status.Round), choosing: map[string]bool{}}
	open := 0
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Settled() || part.Phase == api.ClaimVerified {
			continue
		}
		if part.Returns() { // it is as it was left, and nothing has been written to it since
			part.Phase = api.ClaimVerified
			continue
		}
		job := in.Job(status.Operation, part.Name, status.Round)
		if job != nil {
			if failure := advance(in, next, part, job); failure != "" {
				return failed(in, status, failure)
			}
		}
		if part.Phase == api.ClaimVerified {
			continue
		}
		open++
		if job == nil {
			if err := movers.start(in, status, part); err != nil {
				return failed(in, status, err.Error())
			}
		}
	}
	if open == 0 {
		return handOver(in, status, next)
	}
	told := tell(in, status, next, api.CopyRunning, "the set is stopped, its claims are copied")
	actions := slices.Concat(operation.Store(in.Set, next).Actions(), movers.actions, told, tellWarnings(in, status, next))
	if len(actions) == 0 {
		p := plan.Wait(api.CopyRunning, "%d claims are being copied", open)
		p.Soon = movers.awaited // no event tells that a pod has got its node
		return p
	}
	return plan.Do(api.CopyRunning, actions...)
}

// handOver has restore go on.
func handOver(in Input, before, status *api.Resize) plan.Plan {
	next := operation.Enter(status, api.Switching, in.Now, in.Settings.SwitchTimeout)
	next.Reason, next.Message = api.CopyVerified, wording(status).done
	actions := append(operation.Store(in.Set, next).Actions(), tellWarnings(in, before, next)...)
	return plan.Do(api.CopyVerified, append(actions, operation.NoteOf(in.Set, next, false))...).
		Then(events.BackupCompleted, status.Operation)
}

// unfinished counts the movers of the round that have not ended.
func unfinished(in Input, status *api.Resize, round int) int {
	n := 0
	for _, job := range in.JobsOf(status.Operation) {
		if link, err := api.LoadLink(job); err == nil && link.Round == round && outcome(in, job) == "" {
			n++
		}
	}
	return n
}

// passOf is what is left to copy of a claim in this round.
func passOf(status *api.Resize, part *api.ClaimStatus) resources.Pass {
	if part.Warm && status.Round == 1 {
		return resources.FinalPass
	}
	return resources.WholePass
}

// advance moves a claim on by what its Job says. It returns why the copy failed, or nothing.
func advance(in Input, status *api.Resize, part *api.ClaimStatus, job *batchv1.Job) string {
	part.Phase = api.ClaimCopying
	report, reported := in.Reports[part.Name]
	switch outcome(in, job) {
	case batchv1.JobComplete:
		target := in.TargetClaim(status.Operation, part.Name, status.Round)
		if target == nil || target.Spec.VolumeName == "" || target.DeletionTimestamp != nil ||
			target.CreationTimestamp.After(job.CreationTimestamp.Time) { // it was made anew, and is empty
			return fmt.Sprintf("the temporary claim of %s was deleted while it was being copied", part.Name)
		}
		part.Phase, part.NewVolume = api.ClaimVerified, target.Spec.VolumeName
		if reported {
			part.BytesDone, part.BytesTotal, part.Files, part.Digest = report.Bytes, report.Bytes, report.Files, report.Digest
			part.BytesTrusted = report.TrustedBytes
			addWarnings(status, part, report.Warnings, report.Omitted)
		}
		part.ProgressAt, part.Stalled, part.StalledSince = nil, "", nil
	case batchv1.JobFailed:
		return why(in, part, job)
	default:
		progress(in, part, report, reported)
		stallOf(in, part, job).note(in, part)
	}
	return ""
}

// why says why a mover has failed. What only root can copy is told with what allows it.
func why(in Input, part *api.ClaimStatus, job *batchv1.Job) string {
	report := in.Reports[part.Name]
	switch {
	case report.Message == "" && outOfMemory(in, job):
		return fmt.Sprintf("copying claim %s failed: its mover was killed for using more memory than its limit (OOMKilled); give it more with the annotation "+
			"%s={resources: {limits: {memory: 4Gi}}}", part.Name, api.MoverAnnotation)
	case report.Message == "":
		return fmt.Sprintf("copying claim %s failed: %s", part.Name, jobMessage(job))
	}
	text := fmt.Sprintf("copying claim %s failed: %s: %s", part.Name, report.Reason, report.Message)
	if report.Reason == moverreport.ReasonNotFaithful && !in.RootMovers {
		text += fmt.Sprintf("; root can, where it is allowed: kubectl label namespace %s %s=%s", in.Set.Namespace, api.RootMoverLabel, api.AllowValue)
	}
	return text
}

// outOfMemory reports whether the kernel has killed the Job's mover for its use of memory. Such a mover reports nothing.
func outOfMemory(in Input, job *batchv1.Job) bool {
	return slices.ContainsFunc(in.Movers(job.Labels[api.OperationLabel]), func(pod *corev1.Pod) bool {
		return isOf(pod, job) && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && c.State.Terminated.Reason == "OOMKilled"
		})
	})
}

// isOf reports whether the Job made the pod, and not one of the same name before it.
func isOf(pod *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }

// progress takes in how far a running mover is, now and then.
func progress(in Input, part *api.ClaimStatus, report moverreport.Line, reported bool) {
	if reported && progressDue(in, part) && report.BytesDone != part.BytesDone {
		part.BytesDone, part.BytesTotal = report.BytesDone, report.BytesTotal
		part.ProgressAt = operation.Moment(in.Now)
	}
}

func failed(in Input, status *api.Resize, why string) plan.Plan {
	next := operation.RollBack(status, in.Now, in.Settings.SwitchTimeout, api.CopyFailed,
		why+"; the set goes on with its old volumes, ask again with the annotation "+api.RetryAnnotation)
	return plan.Do(api.CopyFailed, operation.Store(in.Set, next).Actions()...)
}

// outcome is how the Job has ended, or will have: one pod that has succeeded is all that it asks for, and a pod never leaves that
// phase. The Job controller takes a second to say so, since it looks at pods in batches (kubernetes pkg/controller/job,
// SyncJobBatchPeriod), and the set is down meanwhile. A pod that failed says nothing: it may have been started again.
func outcome(in Input, job *batchv1.Job) batchv1.JobConditionType {
	if end := finished(job); end != "" {
		return end
	}
	if slices.ContainsFunc(in.Movers(job.Labels[api.OperationLabel]), func(pod *corev1.Pod) bool {
		return isOf(pod, job) && pod.Status.Phase == corev1.PodSucceeded
	}) {
		return batchv1.JobComplete
	}
	return ""
}

// finished is the Job's final condition, or nothing while it runs.
func finished(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func jobMessage(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Message != "" {
			return c.Reason + ": " + c.Message
		}
	}
	return "see kubectl describe job " + job.Name
}

// progressDue reports whether the claim's progress may be written again.
func progressDue(in Input, part *api.ClaimStatus) bool {
	return part.ProgressAt == nil || in.Now.Sub(part.ProgressAt.Time) >= in.Settings.ProgressPeriod
}
