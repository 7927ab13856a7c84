package idletimeout

import (
	"fmt"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
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
