package idletimeout

import (
	"cmp"
	"fmt"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// failSleep wakes a set whose sleep failed.
func failSleep(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := sleep.Clone()
	next.FailedAt, next.Starts = sleep.Phase, 0
	message = fmt.Sprintf("%s; the next sleep starts after %s at the earliest", message, idle.Backoff(next, in.Settings.SleepRetry))
	next.Failure = &api.SleepFailure{Reason: reason, Message: message} // the set may have to wait, which has its own reason
	return wake(in, group, m, next, reason, message)
}

// wake ends a sleep of a set that is needed or whose sleep failed. No other client has started it, so the count of starts begins again.
func wake(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := sleep.Clone()
	next.Starts = 0
	return beginWaking(in, group, m, next, reason, message)
}

// wakeStarted ends a sleep that another client has ended by starting the set.
func wakeStarted(in Input, group idle.Group, m idle.Member, message string) plan.Plan {
	next := m.Sleep.Clone()
	next.Starts = idle.StartsWith(m.Sleep, in.Now)
	message = fmt.Sprintf("%s; the next sleep starts after %s at the earliest", message, idle.Backoff(next, in.Settings.SleepRetry))
	if next.Starts > 1 {
		message += ". If a deployment tool applies replicas, remove them from its manifest, for example in Git"
	}
	return beginWaking(in, group, m, next, api.StartedByOthers, message)
}

// beginWaking stores that the set wakes up, with an activity, so that it does not fall asleep at once. scale asks its pods back.
func beginWaking(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := enterWaking(sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Reason, next.Message = reason, message
	if replicas := statefulset.Replicas(m.Set); replicas > 0 {
		// The set was not scaled down yet, or another client set a new count. An operator starts and stops members one by one.
		if next.Replicas = replicas; next.OwnerStops {
			next.Replicas = max(replicas, sleep.Replicas)
		}
	} else if first := unreadyDependency(group, m); first != "" && !next.OwnerStops {
		next.Step, next.Reason = api.AwaitsDependency, api.DependencyFirst
		next.Message = fmt.Sprintf("%s; the set waits until %s is ready", message, first)
	}
	patch := plan.PatchOf(plan.StatefulSets, m.Set).Unannotate(api.AbortAnnotation)
	if statefulset.Managed(m.Set) && m.Err == nil {
		setLastActivity(patch, m, in.Now)
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	warning := next.FailedAt != "" || next.Starts > 0
	return plan.Do(reason, append(patch.Actions(), operation.NoteOf(m.Set, next, warning))...).Then(events.WakeDecided, sleep.Operation)
}

// enterWaking returns a copy of the sleep in phase Waking. The first such record stores when the wake-up began.
func enterWaking(sleep *api.Sleep, now time.Time, timeout time.Duration) *api.Sleep {
	next := operation.Enter(sleep, api.Waking, now, timeout)
	if sleep.Phase != api.Waking {
		next.WakingAt = operation.Moment(now)
	}
	next.Step = ""
	return next
}

// handleWaking waits until the set is ready. While the set is at zero the sleep does not end, unless another client scaled the set
// to zero.
func handleWaking(in Input, group idle.Group, m idle.Member) plan.Plan {
	switch replicas := statefulset.Replicas(m.Set); {
	case replicas == 0 && m.Sleep.Step == api.AwaitsDependency:
		return awaitDependency(in, group, m)
	case replicas == 0 && m.Sleep.OwnerStops:
		return awaitOwner(in, m)
	case in.scalingRuns(m):
		return plan.Wait(api.WaitingForReady, "its Scaler scales it") // possibly still to zero, so whenScaled stays Retain
	case replicas == 0:
		return handleWakingAtZero(in, m)
	}
	return handleWakingMembers(in, m)
}

// handleWakingMembers waits until the members of a waking set are ready.
func handleWakingMembers(in Input, m idle.Member) plan.Plan {
	sleep, replicas, overdue := m.Sleep, statefulset.Replicas(m.Set), operation.Overdue(m.Sleep, in.Now)
	switch {
	case sleep.OwnerStops && replicas < sleep.Replicas && !overdue:
		return plan.Wait(api.WaitingForReady, "its operator has started %d of %d replicas", replicas, sleep.Replicas)
	case sleep.OwnerStops && replicas < sleep.Replicas:
		return conclude(in, m, api.Failed, api.NotReady, fmt.Sprintf("its operator has started only %d of %d replicas in time. Check the "+
			"operator. The claims of the others are kept", replicas, sleep.Replicas))
	case idle.EnoughReady(m.Set, true):
		if sleep.FailedAt != "" {
			failure := cmp.Or(sleep.Failure, &api.SleepFailure{Reason: sleep.Reason, Message: sleep.Message})
			return conclude(in, m, api.Failed, failure.Reason, failure.Message)
		}
		reason, message := in.successOf(sleep)
		return conclude(in, m, api.Succeeded, reason, message)
	case overdue:
		return conclude(in, m, api.Failed, api.NotReady, fmt.Sprintf("only %d of %d replicas became ready in time. Check the pods",
			m.Set.Status.ReadyReplicas, replicas))
	}
	return plan.Wait(api.WaitingForReady, "%d of %d replicas are ready", m.Set.Status.ReadyReplicas, replicas)
}

// handleWakingAtZero handles a waking set that is at zero. Its pods have yet to be asked back, or another client has scaled it to zero.
func handleWakingAtZero(in Input, m idle.Member) plan.Plan {
	overdue, awaited := operation.Overdue(m.Sleep, in.Now), isStopped(m) || members.OrdersStart(m.Sleep, m.Stop)
	scaler := in.Scalers[m.Set.Name]
	switch {
	case scaler != nil && scaler.Spec.Paused:
		return conclude(in, m, api.Succeeded, api.SetPaused, fmt.Sprintf("its Scaler %s is paused, so it stays at zero. To start it, set "+
			"spec.paused of the Scaler to false", scaler.Name))
	case scalerFailedToStart(m):
		record := operation.Of(m.Set).Scale
		return conclude(in, m, api.Failed, record.Reason,
			fmt.Sprintf("Scaler %s could not start the set: %s", record.Scaler.Name, record.Message))
	case scaler != nil && !in.scalerStartsSet(m):
		return conclude(in, m, api.Succeeded, api.AtZeroAlready, fmt.Sprintf("its Scaler %s requests no pods, so it stays at zero. To start it, "+
			"scale the Scaler", scaler.Name))
	case awaited && m.Stop.Of(m.Sleep) && m.Stop.RefusedAt != nil: // else it was the stop that the API server has rejected
		return noteRefusedStart(in, m)
	case scaler != nil && !overdue, scaler == nil && awaited: // an end would forget an order that scale has yet to carry out
		return plan.Wait(api.WaitingForReady, "its pods have not been asked back yet")
	case !statefulset.AtZero(m.Set) && !overdue:
		return plan.Wait(api.ScalingDown, "another client scales it to zero again; its claims are retained until all pods have ended")
	case scaler != nil:
		return conclude(in, m, api.Failed, api.NotReady, fmt.Sprintf("Scaler %s has not started the set in time. Read its status", scaler.Name))
	}
	return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero")
}

// noteRefusedStart stores that the API server rejected the replicas of the set. scale tries them again.
func noteRefusedStart(in Input, m idle.Member) plan.Plan {
	message := fmt.Sprintf("the API server rejected %d replicas: %s. Remove the cause, or scale the set yourself; the next try is %s later",
		wantedReplicas(m.Sleep), m.Stop.Refused, in.Settings.SleepRetry)
	if m.Sleep.Message == text.Clip(message, longestMessage) {
		return plan.Wait(api.StartRefused, "the API server rejected its replicas")
	}
	next := m.Sleep.Clone()
	next.Reason, next.Message = api.StartRefused, text.Clip(message, longestMessage)
	return plan.Do(api.StartRefused, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, true))...)
}

// longestMessage limits the message about a refused start, in bytes. A record clips longer ones.
const longestMessage = 1000

// awaitDependency lets the set start as soon as the sets that it depends on are ready.
func awaitDependency(in Input, group idle.Group, m idle.Member) plan.Plan {
	if first := unreadyDependency(group, m); first != "" && !operation.Overdue(m.Sleep, in.Now) {
		return plan.Wait(api.DependencyFirst, "%s is not ready yet", first)
	}
	next := enterWaking(m.Sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Reason, next.Message = api.WakingUp, "the set is needed"
	return plan.Do(api.WakingUp, operation.Store(m.Set, next).Actions()...).Then(events.WakeDecided, next.Operation)
}

// awaitOwner waits until the operator that stopped the set has started it. If it does not, scale restores the replicas once.
func awaitOwner(in Input, m idle.Member) plan.Plan {
	sleep, overdue := m.Sleep, operation.Overdue(m.Sleep, in.Now)
	switch {
	case sleep.Step != api.StartedForOwner && !overdue:
		return plan.Wait(api.WaitingForReady, "0 of %d replicas are ready; its operator has to start them", wantedReplicas(sleep))
	case sleep.Step != api.StartedForOwner:
		return startForOwner(in, m)
	case m.Stop.Of(sleep) && m.Stop.RefusedAt != nil:
		return noteRefusedStart(in, m)
	case !isStarted(m):
		return plan.Wait(api.WaitingForReady, "its pods have not been asked back yet")
	case !statefulset.AtZero(m.Set) && !overdue:
		return plan.Wait(api.ScalingDown, "its operator scales it to zero again")
	case sleep.OwnerProblem != "": // its operator obeys Drydock's stop
		return conclude(in, m, api.Failed, api.OwnerStays, sleep.OwnerProblem+". So its operator scaled the set to zero again")
	}
	return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero again")
}

// wantedReplicas returns the replica count from before the sleep, at least one.
func wantedReplicas(sleep *api.Sleep) int32 { return max(sleep.Replicas, 1) }

// ownerAway says that the set's operator has not started it.
func (in Input) ownerAway(sleep *api.Sleep) string {
	return fmt.Sprintf("its operator has not started it within %s, so Drydock restores its %d replicas. Check the operator",
		in.Settings.ReadyTimeout, wantedReplicas(sleep))
}

// startForOwner lets scale restore the replicas in place of the set's operator.
func startForOwner(in Input, m idle.Member) plan.Plan {
	next := enterWaking(m.Sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Step, next.Reason = api.StartedForOwner, api.OwnerAway
	next.Message = in.ownerAway(m.Sleep)
	if in.Scalers[m.Set.Name] != nil {
		next.OwnerStops = false // otherwise the Scaler would wait for the operator
	}
	actions := append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, true))
	return plan.Do(next.Reason, actions...).Then(events.WakeDecided, next.Operation)
}

// successOf returns the reason and the message of a wake-up that has succeeded. The record still says what the set waited for, or who
// started it. Only what users have to look into stays.
func (in Input) successOf(sleep *api.Sleep) (api.Reason, string) {
	switch {
	case sleep.Starts > 0:
		return api.StartedByOthers, sleep.Message
	case sleep.Step == api.StartedForOwner:
		return api.Awake, in.ownerAway(sleep)
	}
	return api.Awake, "the set runs again"
}

// conclude ends the sleep, and announces the end so that pause-owner resumes the owner. scale restores the retention policy.
func conclude(in Input, m idle.Member, phase api.Phase, reason api.Reason, message string) plan.Plan {
	next := operation.Conclude(m.Sleep, phase, in.Now, reason, message)
	next.Failure, next.Step = nil, ""
	announce := events.Scaled
	if phase == api.Failed {
		announce = events.OperationFailed
		if next.FailedAt == "" {
			next.FailedAt = api.Waking
		}
	}
	next.StartsLate = phase == api.Failed
	if idle.EnoughReady(m.Set, true) {
		next.ReadyAt, next.StartsLate = operation.Moment(in.Now), false
	}
	store := operation.Store(m.Set, next).Unannotate(api.AbortAnnotation)
	return plan.Do(reason, append(store.Actions(), operation.NoteOf(m.Set, next, phase == api.Failed))...).Then(announce, next.Operation)
}
