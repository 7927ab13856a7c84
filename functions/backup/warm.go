package backup

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// warmRound is the round of the Jobs that copy while the set runs. They fill the targets of the first round, on which the final
// pass goes on.
const warmRound = 0

const warmMessage = "the set runs, its claims are copied for the first time"

// warm makes a first copy of every claim while the set runs, so that the time for which it is stopped hardly depends on how much
// data there is; and what could not be copied faithfully is found before any downtime. A claim for which that is not possible is
// copied when the set is stopped.
func warm(in Input, status *api.Resize) (plan.Plan, bool) {
	if status.Round != 1 || status.Stopping != nil || status.Generation != 0 || sts.Replicas(in.Set) == 0 {
		return plan.Plan{}, false
	}
	next := status.Clone()
	var actions []plan.Action
	free, open := resources.Parallelism(in.Set, in.Settings)-unfinished(in, status, warmRound), 0
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Settled() || part.Warm || part.Cold || part.Returns() {
			continue
		}
		job := in.Job(status.Operation, part.Name, warmRound)
		if job == nil && in.Cold(in.Claim(part.Name)) != "" {
			if awaited(in, status, part) {
				absence(in, status, part).note(in, part)
				open++
			} else {
				part.Stalled, part.StalledSince = "", nil
			}
			continue
		}
		if failure := advanceWarm(in, next, part, job); failure != "" {
			return failed(in, status, failure), true
		}
		if part.Cold {
			actions = append(actions, deleteJob(job)...)
		}
		if part.Warm || part.Cold {
			continue
		}
		open++
		if job == nil && free > 0 {
			free--
			mover, err := moverOf(in, status, *part, resources.WarmPass)
			if err != nil {
				return failed(in, status, err.Error()), true
			}
			mover.Link.Round, mover.Node = warmRound, in.Users(part.Name)[0].Spec.NodeName
			actions, part.Phase = append(actions, plan.Create(plan.Jobs, resources.MakeMover(mover))), api.ClaimWarming
			part.Stalled, part.StalledSince = "", nil
			part.WarmPod, part.WarmNode = in.Users(part.Name)[0].UID, in.Users(part.Name)[0].Spec.NodeName
		}
	}
	if len(actions) > 0 {
		next.Reason, next.Message = api.WarmCopyRunning, warmMessage
	}
	told := tell(in, status, next, api.WarmCopyRunning, warmMessage)
	actions = slices.Concat(actions, operation.Store(in.Set, next).Actions(), told, tellWarnings(in, status, next))
	if len(actions) > 0 {
		return plan.Do(api.WarmCopyRunning, actions...), true
	}
	return plan.Wait(api.WarmCopyRunning, "%d claims are copied while the set runs", open), open > 0
}

// awaited reports whether the replica of a claim is about to run: it is worth waiting for, but not for ever.
func awaited(in Input, status *api.Resize, part *api.ClaimStatus) bool {
	_, ordinal, _ := sts.ParseClaimName(in.Set, part.Name)
	span := sts.Span(in.Set)
	wanted := ordinal >= span.Start && ordinal < span.End && !sts.OnePodOnly(in.Claim(part.Name))
	return wanted && status.Deadline != nil && in.Now.Before(began(in, status).Add(in.Settings.StartTimeout))
}

// began is when the copying began.
func began(in Input, status *api.Resize) time.Time {
	return status.Deadline.Add(-in.Settings.CopyTimeout)
}

// absence describes the wait for the replica of an awaited claim.
func absence(in Input, status *api.Resize, part *api.ClaimStatus) *stall {
	since := began(in, status)
	return &stall{reason: "PodNotRunning", since: since, notice: noticeStart, detail: fmt.Sprintf(
		"%s. Its first copy waits for a running pod until %s, then the claim is copied with the set stopped; look at kubectl describe pod %s",
		in.Cold(in.Claim(part.Name)), since.Add(in.Settings.StartTimeout).UTC().Format(time.RFC3339), memberOf(in, part.Name))}
}

// advanceWarm moves a claim on by what its Job says, and returns why the operation has to end, or nothing. What fails now would
// fail when the set is stopped.
func advanceWarm(in Input, status *api.Resize, part *api.ClaimStatus, job *batchv1.Job) string {
	if job == nil {
		return ""
	}
	report, reported := in.Reports[part.Name]
	switch outcome(in, job) {
	case batchv1.JobComplete:
		part.Phase, part.Warm, part.ProgressAt, part.Stalled, part.StalledSince = api.ClaimWarmed, true, nil, "", nil
		if reported {
			part.BytesDone, part.BytesTotal, part.Files = report.Bytes, report.Bytes, report.Files
			addWarnings(status, part, report.Warnings, report.Omitted)
		}
	case batchv1.JobFailed:
		return why(in, part, job)
	default:
		s := stallOf(in, part, job)
		switch {
		case s.over(in.Now) && s.unplaced && unprovisioned(in, status, part):
			return fmt.Sprintf("no volume was provisioned for the copy of claim %s within %s; look at kubectl describe pvc %s: %s",
				part.Name, s.allowed, api.CopyName(status.Operation, part.Name, status.Round), bounded(s.cause()))
		case s.over(in.Now) && !s.unplaced:
			return s.failure(part)
		case s.over(in.Now), inTheWay(in, status, part):
			part.Cold, part.Stalled, part.StalledSince = true, "", nil
			return ""
		}
		s.note(in, part)
		progress(in, part, report, reported)
	}
	return ""
}

// staysWarm reports whether only the pod that used the claim while it was first copied has used it since. Another one may have run
// on another node, which may have crashed: then contents can have changed without a trace in the time stamps, see
// docs/decisions/2026-11-22-warm-copy.md.
func staysWarm(in Input, part *api.ClaimStatus) bool {
	users := in.Users(part.Name)
	return part.Warm && len(users) == 1 && users[0].UID == part.WarmPod
}

// unprovisioned reports whether the scheduler has found a node for the mover, and the storage no volume.
func unprovisioned(in Input, status *api.Resize, part *api.ClaimStatus) bool {
	target := in.TargetClaim(status.Operation, part.Name, status.Round)
	return target != nil && target.Spec.VolumeName == "" && target.Annotations[selectedNode] != ""
}

// selectedNode is where the scheduler tells a provisioner which node it has found
// (kubernetes component-helpers storage/volume, AnnSelectedNode).
const selectedNode = "volume.kubernetes.io/selected-node"

func deleteJob(job *batchv1.Job) []plan.Action {
	if job == nil || job.DeletionTimestamp != nil {
		return nil
	}
	return []plan.Action{plan.Delete(plan.Jobs, job)}
}

// inTheWay reports whether the pod that uses the claim is to run elsewhere than the mover, which has the volume on its node.
func inTheWay(in Input, status *api.Resize, part *api.ClaimStatus) bool {
	for _, mover := range in.Movers(status.Operation) {
		link, _ := api.LoadLink(mover) // Movers returns linked pods only
		if link.Claim != part.Name || link.Round != warmRound || mover.Spec.NodeName == "" || sts.Done(mover) {
			continue
		}
		if slices.ContainsFunc(in.Users(part.Name), func(user *corev1.Pod) bool {
			return user.Spec.NodeName != "" && user.Spec.NodeName != mover.Spec.NodeName
		}) {
			return true
		}
	}
	return false
}
