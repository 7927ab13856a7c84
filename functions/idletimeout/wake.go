package idletimeout

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// giveUp wakes a set whose sleep has failed.
func giveUp(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := sleep.Clone()
	next.FailedAt, next.Reason = sleep.Phase, reason
	return wake(in, group, m, next, reason, message+"; it is not put to sleep for "+idle.Rest(next, in.Settings.SleepRetry).String())
}

// wake ends a sleep: in one write the set gets its replicas and, so that it is not put to sleep right away, an activity.
func wake(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := operation.Enter(sleep, api.Waking, in.Now, in.Settings.ReadyTimeout+in.hooksTake(m))
	next.Reason, next.Message = reason, message
	patch := plan.PatchOf(plan.StatefulSets, m.Set).Unannotate(api.AbortAnnotation)
	var resume []plan.Action
	if replicas := statefulset.Replicas(m.Set); replicas > 0 {
		next.Replicas = replicas // nothing was taken away yet, or somebody has said what they want
		if sleep.Stopping != nil && in.Scalers[m.Set.Name] != nil {
			resume = in.scale(patch, m, replicas) // it may be about to
		}
	} else if first := dependency(group, m); first != "" && !next.OwnerStops {
		next.Reason, next.Message = api.DependencyFirst, fmt.Sprintf("%s; it waits until %s is ready", message, first)
	} else if in.rejected(m) && !next.OwnerStops {
		return cannotStart(in, m, sleep)
	} else if !next.OwnerStops {
		resume = in.scale(patch, m, next.Replicas)
	}
	if statefulset.Managed(m.Set) && m.Err == nil {
		touch(patch, m, in.Now)
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	warning := next.FailedAt != "" || reason == api.StartedByOthers
	// The Scaler first: a sleep that says Waking while its Scaler is paused would pass for a pause by the user, and end at zero.
	actions := slices.Concat(resume, patch.Actions(), []plan.Action{operation.NoteOf(m.Set, next, warning)})
	return plan.Do(reason, actions...).Then(events.WakeDecided, sleep.Operation)
}

// waking waits until the set is ready. While the set is at zero its sleep does not end, unless another process scaled it to zero.
func waking(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	if replicas == 0 && (sleep.OwnerStops || waitsToStart(sleep)) {
		return starting(in, group, m)
	}
	switch {
	case in.rejected(m):
		return conclude(in, m, api.Failed, api.Rejected, "the API server refuses: "+in.Rejected+"; scale the set yourself")
	case in.Scalers[m.Set.Name] != nil && operation.Of(m.Set).Scaling() && !operation.Overdue(sleep, in.Now):
		return plan.Wait(api.WaitingForReady, "its Scaler scales it") // perhaps still to zero, so whenScaled stays Retain
	case idle.EnoughReady(m.Set, true):
		if sleep.FailedAt != "" {
			return conclude(in, m, api.Failed, sleep.Reason, sleep.Message)
		}
		return conclude(in, m, api.Succeeded, endReason(sleep), endMessage(sleep))
	case replicas == 0 && in.resumes(m) && !operation.Overdue(sleep, in.Now):
		return plan.Wait(api.WaitingForReady, "its Scaler starts it")
	case replicas == 0 && !statefulset.AtZero(m.Set) && !operation.Overdue(sleep, in.Now):
		return plan.Wait(api.ScalingDown, "somebody stops it again; while pods are left, its claims stay retained")
	case replicas == 0 && !in.resumes(m):
		return conclude(in, m, api.Succeeded, api.AtZeroAlready, writer(m.Set)+" has scaled it to zero")
	case operation.Overdue(sleep, in.Now):
		return conclude(in, m, api.Failed, api.NotReady, fmt.Sprintf("only %d of %d replicas got ready within %s; look at the pods",
			m.Set.Status.ReadyReplicas, replicas, in.Settings.ReadyTimeout))
	}
	return plan.Wait(api.WaitingForReady, "%d of %d replicas are ready", m.Set.Status.ReadyReplicas, replicas)
}

// waitsToStart reports whether Drydock has not given the set its replicas yet.
func waitsToStart(sleep *api.Sleep) bool {
	return sleep.Reason == api.DependencyFirst || sleep.Reason == api.StartRefused
}

// starting waits until a set at zero may have its replicas, and then gives them to it: also to a set whose operator was to do so.
func starting(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, first, overdue := m.Sleep, dependency(group, m), operation.Overdue(m.Sleep, in.Now)
	switch {
	case in.rejected(m):
		return cannotStart(in, m, sleep)
	case sleep.Reason == api.StartRefused && !overdue:
		return plan.Wait(api.StartRefused, "the API server refused its replicas; the next try is at %s", idle.Stamp(sleep.Deadline.Time))
	case sleep.OwnerStops && !overdue:
		return plan.Wait(api.WaitingForReady, "0 of %d replicas are ready, its operator is to start them", wanted(sleep))
	case sleep.OwnerStops:
		return start(in, m, api.OwnerAway, fmt.Sprintf("its operator has not started it within %s, so Drydock gives it %d replicas; "+
			"look at the operator", in.Settings.ReadyTimeout, wanted(sleep)))
	case first != "" && !overdue:
		return plan.Wait(api.DependencyFirst, "%s is not ready yet", first)
	}
	return start(in, m, api.WakingUp, "somebody needs it")
}

// wanted is how many replicas the set had, at least one.
func wanted(sleep *api.Sleep) int32 { return max(sleep.Replicas, 1) }

// start gives a waking set at zero its replicas.
func start(in Input, m idle.Member, reason api.Reason, message string) plan.Plan {
	next := operation.Enter(m.Sleep, api.Waking, in.Now, in.Settings.ReadyTimeout)
	next.Reason, next.Message = reason, message
	patch := operation.Store(m.Set, next)
	resume := in.scale(patch, m, wanted(m.Sleep))
	actions := append(resume, patch.Actions()...) // in the order of wake
	if reason == api.OwnerAway {
		actions = append(actions, operation.NoteOf(m.Set, next, true))
	}
	return plan.Do(reason, actions...).Then(events.WakeDecided, next.Operation)
}

// cannotStart keeps the sleep of a set whose replicas the API server refuses, and says when the next try is.
func cannotStart(in Input, m idle.Member, sleep *api.Sleep) plan.Plan {
	next := operation.Enter(sleep, api.Waking, in.Now, in.Settings.SleepRetry)
	next.Reason = api.StartRefused
	next.Message = fmt.Sprintf("the API server refuses to give it %d replicas: %s; remove the cause, or scale the set yourself; "+
		"the next try is in %s", wanted(sleep), in.Rejected, in.Settings.SleepRetry)
	patch := operation.Store(m.Set, next).Unannotate(api.AbortAnnotation)
	return plan.Do(api.StartRefused, append(patch.Actions(), operation.NoteOf(m.Set, next, true))...)
}

// endReason tells who woke the set, where it was not Drydock.
func endReason(sleep *api.Sleep) api.Reason {
	if sleep.Reason == api.StartedByOthers {
		return api.StartedByOthers
	}
	return api.Awake
}

// endMessage says why the set is awake; that its replicas were refused is over.
func endMessage(sleep *api.Sleep) string {
	if sleep.Reason == api.StartRefused {
		return "it runs again"
	}
	return sleep.Message
}

// conclude ends the sleep: the retention policy is put back, and pause-owner resumes the owner.
func conclude(in Input, m idle.Member, phase api.Phase, reason api.Reason, message string) plan.Plan {
	next := operation.Conclude(m.Sleep, phase, in.Now, reason, message)
	next.Stopping, next.WhenScaled = nil, ""
	if reason == api.Awake {
		next.StartedBy, next.Starts = "", 0
	}
	announce := events.Scaled
	if phase == api.Failed {
		announce = events.OperationFailed
		if next.FailedAt == "" {
			next.FailedAt = api.Waking
		}
	}
	if idle.EnoughReady(m.Set, true) {
		next.Ready = operation.Moment(in.Now)
	}
	patch := operation.Store(m.Set, next).Unannotate(api.AbortAnnotation)
	stops := statefulset.Replicas(m.Set) == 0 && !statefulset.AtZero(m.Set) // while pods are ending, Delete would take their claims along
	if was := m.Sleep.WhenScaled; was != "" && !stops {
		plan.Set(patch, statefulset.WhenScaledPath, statefulset.WhenScaled(m.Set), was, "whenScaled "+string(was))
	}
	actions := append(patch.Actions(), operation.NoteOf(m.Set, next, phase == api.Failed))
	for _, r := range in.Records[m.Set.Name] {
		actions = append(actions, plan.Delete(plan.ControllerRevisions, r.Revision))
	}
	return plan.Do(reason, actions...).Then(announce, next.Operation)
}
