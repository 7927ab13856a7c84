package idletimeout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// lateOwnerWrites is how long after the scale-down a write may still come from an operator that read its resource before the pause.
const lateOwnerWrites = time.Minute

// handleStopping scales the set to zero, or waits until its operator has done so.
func handleStopping(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	scaled := sleep.ScaledToZeroAt != nil
	switch {
	case in.isRejected(m) || in.RejectedRecords[m.Set.Name] != "":
		return failSleep(in, group, m, sleep, api.Rejected, "the API server rejected a write of the scale-down: "+
			cmp.Or(in.Rejected[m.Set.Name], in.RejectedRecords[m.Set.Name]))
	case statefulset.AtZero(m.Set) && (scaled || sleep.OwnerStops):
		next := sleep.Clone()
		next.Phase, next.PodsGoneAt, next.Deadline = api.Asleep, operation.Moment(in.Now), nil
		next.Reason, next.Message = api.FellAsleep, fmt.Sprintf("the set gets its %d replicas back when it is needed", sleep.Replicas)
		return plan.Do(api.FellAsleep, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, false))...).
			Then(events.Scaled, sleep.Operation)
	case !scaled && !sleep.OwnerStops && in.isScalerPaused(m): // a wake-up would end the user's pause
		return conclude(in, m, api.Succeeded, api.SetPaused,
			"another client has paused its Scaler, so Drydock ends the sleep and leaves the pause")
	case operation.Overdue(sleep, in.Now):
		return failSleep(in, group, m, sleep, api.DeadlineExceeded, whyNotStopped(in, m))
	case sleep.OwnerStops:
		return plan.Wait(api.ScalingDown, "its operator scales it to zero, %d replicas are left", m.Set.Status.Replicas)
	case scaled && in.Scalers[m.Set.Name] != nil:
		return handleStoppingByScaler(in, group, m)
	case replicas == 0 && scaled:
		return plan.Wait(api.ScalingDown, "%d replicas are left", m.Set.Status.Replicas)
	case scaled:
		return handleStarted(in, group, m)
	}
	next := sleep.Clone()
	next.Replicas = replicas
	return scaleDown(in, m, next)
}

// whyNotStopped says what has not happened before the deadline of the stop.
func whyNotStopped(in Input, m idle.Member) string {
	switch limit := in.Settings.QuiesceTimeout; {
	case m.Sleep.OwnerStops && statefulset.Replicas(m.Set) > 0:
		return fmt.Sprintf("its operator did not scale the set to zero within %s and the grace period of its pods. Check the operator", limit)
	case m.Sleep.ScaledToZeroAt == nil && !m.Sleep.OwnerStops:
		return fmt.Sprintf("the set was not scaled to zero within %s and the grace period of its pods. Read the log of idle-timeout", limit)
	default:
		return fmt.Sprintf("%s did not end within %s and the grace period, so the set is started again. Check the pods, their "+
			"finalizers and their nodes", text.Number(int(m.Set.Status.Replicas), "pod", "pods"), limit)
	}
}

// handleStoppingByScaler waits until the Scaler has scaled the set to zero.
func handleStoppingByScaler(in Input, group idle.Group, m idle.Member) plan.Plan {
	record := operation.Of(m.Set).Scale
	paused := in.Scalers[m.Set.Name].Spec.Paused
	obeyed := record.Paused && record.Target == 0 && !record.Started.Before(m.Sleep.ScaledToZeroAt)
	switch {
	case !paused && obeyed:
		return wakeStarted(in, group, m, fmt.Sprintf("another client ended the pause of Scaler %s", record.Scaler.Name))
	case !paused: // the process that began the scale-down has not written it
		return scaleDown(in, m, m.Sleep.Clone())
	case record.Phase == api.Failed:
		return failSleep(in, group, m, m.Sleep, record.Reason, fmt.Sprintf("the scale-down to zero failed: %s", record.Message))
	}
	return plan.Wait(api.ScalingDown, "Scaler %s scales it to zero, %d replicas are left", record.Scaler.Name, m.Set.Status.Replicas)
}

// handleStarted handles a set that another client has scaled up during its sleep: it is needed. An operator that was just paused may have
// written late, so a set with an operator is scaled to zero once more. Its count is still that from before the sleep.
func handleStarted(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep := m.Sleep
	late := statefulset.Controller(m.Set) != nil && !sleep.OwnerStops && in.Scalers[m.Set.Name] == nil &&
		sleep.ScaledToZeroAt != nil && in.Now.Sub(sleep.ScaledToZeroAt.Time) < lateOwnerWrites
	if late && sleep.Step != api.StoppedAgain {
		next := sleep.Clone()
		next.Phase, next.PodsGoneAt, next.Step = api.Stopping, nil, api.StoppedAgain
		return scaleDown(in, m, next)
	}
	return wakeStarted(in, group, m, fmt.Sprintf("%s scaled the set to %d replicas", replicasWriter(m.Set), statefulset.Replicas(m.Set)))
}

// scaleDown stores the replica count in the write that sets it to zero. The same write makes the set retain the claims of the
// stopped pods.
func scaleDown(in Input, m idle.Member, next *api.Sleep) plan.Plan {
	next.ScaledToZeroAt = operation.Moment(in.Now)
	next.Deadline = operation.Moment(in.Now.Add(in.Settings.QuiesceTimeout + statefulset.GracePeriod(m.Set) + in.hookDeadlines(m)))
	patch := plan.PatchOf(plan.StatefulSets, m.Set)
	if found := statefulset.WhenScaled(m.Set); found != statefulset.Retain {
		next.WhenScaled = found
		patch.Replace(statefulset.WhenScaledPath, statefulset.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	pause := in.scale(patch, m, 0)
	return plan.Do(api.ScalingDown, slices.Concat(in.ensureRecord(m, next), patch.Actions(), pause)...)
}
