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
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
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

// beginWaking restores the replicas and stores an activity in one write, so that the set does not fall asleep at once.
func beginWaking(in Input, group idle.Group, m idle.Member, sleep *api.Sleep, reason api.Reason, message string) plan.Plan {
	next := enterWaking(sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Reason, next.Message = reason, message
	patch := plan.PatchOf(plan.StatefulSets, m.Set).Unannotate(api.AbortAnnotation)
	var resume []plan.Action
	if replicas := statefulset.Replicas(m.Set); replicas > 0 {
		// The set was not scaled down yet, or another client set a new count. An operator starts and stops members one by one.
		if next.Replicas = replicas; next.OwnerStops {
			next.Replicas = max(replicas, sleep.Replicas)
		} else if sleep.ScaledToZeroAt != nil && statefulset.Controller(m.Set) != nil && replicas < sleep.Replicas {
			next.KeepMembers = max(next.KeepMembers, sleep.Replicas) // its operator may start the others later
		}
		if sleep.ScaledToZeroAt != nil {
			resume = in.scale(patch, m, replicas) // the Scaler may be about to scale the set down
		}
	} else if first := unreadyDependency(group, m); first != "" && !next.OwnerStops {
		next.Step, next.Reason = api.AwaitsDependency, api.DependencyFirst
		next.Message = fmt.Sprintf("%s; the set waits until %s is ready", message, first)
	} else if in.isRejected(m) && !next.OwnerStops {
		return retryStartLater(in, m, next)
	} else if !next.OwnerStops {
		resume = in.scale(patch, m, next.Replicas)
	}
	if statefulset.Managed(m.Set) && m.Err == nil {
		setLastActivity(patch, m, in.Now)
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	warning := next.FailedAt != "" || next.Starts > 0
	// The Scaler comes first. If the sleep is Waking while its Scaler is still paused, the pause looks like the user's, and the
	// sleep ends at zero.
	actions := slices.Concat(resume, patch.Actions(), []plan.Action{operation.NoteOf(m.Set, next, warning)})
	return plan.Do(reason, actions...).Then(events.WakeDecided, sleep.Operation)
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
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	if replicas == 0 && (sleep.OwnerStops || isWaitingToStart(sleep)) {
		return handleStart(in, group, m)
	}
	switch {
	case in.isRejected(m) && !idle.EnoughReady(m.Set, true): // else only whenScaled was rejected
		return conclude(in, m, api.Failed, api.Rejected,
			"the API server rejected a write of the wake-up: "+in.Rejected[m.Set.Name]+". Scale the set yourself")
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
			"operator. cleanup-pod keeps the claims of the others until it has started them", replicas, sleep.Replicas))
	case idle.EnoughReady(m.Set, true):
		if sleep.FailedAt != "" {
			failure := cmp.Or(sleep.Failure, &api.SleepFailure{Reason: sleep.Reason, Message: sleep.Message})
			return conclude(in, m, api.Failed, failure.Reason, failure.Message)
		}
		return conclude(in, m, api.Succeeded, endReason(sleep), endMessage(sleep))
	case overdue:
		return failNotReady(in, m, replicas)
	}
	return plan.Wait(api.WaitingForReady, "%d of %d replicas are ready", m.Set.Status.ReadyReplicas, replicas)
}

// handleWakingAtZero handles a waking set that is at zero, although Drydock or its Scaler has started it. If another client keeps it at
// zero, the wake-up ends.
func handleWakingAtZero(in Input, m idle.Member) plan.Plan {
	overdue := operation.Overdue(m.Sleep, in.Now)
	switch {
	case in.hasLostScaler(m):
		return startReplicas(in, m, "its Scaler was deleted")
	case in.Scalers[m.Set.Name] != nil && scale.PausedByDrydock(in.Scalers[m.Set.Name]):
		return startReplicas(in, m, "the pause of its Scaler came late")
	case scalerFailedToStart(m):
		record := operation.Of(m.Set).Scale
		return conclude(in, m, api.Failed, record.Reason,
			fmt.Sprintf("Scaler %s could not start the set: %s", record.Scaler.Name, record.Message))
	case in.scalerStartsSet(m) && !overdue:
		return plan.Wait(api.WaitingForReady, "its Scaler starts it")
	case !statefulset.AtZero(m.Set) && !overdue:
		return plan.Wait(api.ScalingDown, "another client scales it to zero again; its claims are retained until all pods have ended")
	case !in.scalerStartsSet(m):
		return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero")
	}
	return failNotReady(in, m, wantedReplicas(m.Sleep))
}

// failNotReady ends a wake-up whose deadline has passed.
func failNotReady(in Input, m idle.Member, wanted int32) plan.Plan {
	return conclude(in, m, api.Failed, api.NotReady, fmt.Sprintf("only %d of %d replicas became ready in time. Check the pods",
		m.Set.Status.ReadyReplicas, wanted))
}

// isWaitingToStart reports whether Drydock has not restored the set's replicas yet.
func isWaitingToStart(sleep *api.Sleep) bool {
	return sleep.Step == api.AwaitsDependency || sleep.Step == api.AwaitsRetry
}

// handleStart restores the replicas of a waking set that is at zero, as soon as the set may start. If the set's operator does not
// start it within the deadline, Drydock does.
func handleStart(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, first, overdue := m.Sleep, unreadyDependency(group, m), operation.Overdue(m.Sleep, in.Now)
	switch {
	case in.isRejected(m):
		return retryStartLater(in, m, sleep)
	case sleep.Step == api.AwaitsRetry && !overdue:
		return plan.Wait(api.StartRefused, "the API server rejected its replicas; the next try is at %s", idle.FormatTime(sleep.Deadline.Time))
	case sleep.Step == api.StartedForOwner && !statefulset.AtZero(m.Set) && !overdue:
		return plan.Wait(api.ScalingDown, "its operator scales it to zero again")
	case sleep.Step == api.StartedForOwner && sleep.OwnerProblem != "": // its operator obeys Drydock's stop
		return conclude(in, m, api.Failed, api.OwnerStays, sleep.OwnerProblem+". So its operator scaled the set to zero again")
	case sleep.Step == api.StartedForOwner: // Drydock has started it once, so its operator is not away
		return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero again")
	case sleep.OwnerStops && !overdue:
		return plan.Wait(api.WaitingForReady, "0 of %d replicas are ready; its operator has to start them", wantedReplicas(sleep))
	case sleep.OwnerStops:
		return startForOwner(in, m, fmt.Sprintf("its operator has not started it within %s, so Drydock restores its %d replicas. "+
			"Check the operator", in.Settings.ReadyTimeout, wantedReplicas(sleep)))
	case first != "" && !overdue:
		return plan.Wait(api.DependencyFirst, "%s is not ready yet", first)
	}
	return startReplicas(in, m, "the set is needed")
}

// wantedReplicas returns the replica count from before the sleep, at least one.
func wantedReplicas(sleep *api.Sleep) int32 { return max(sleep.Replicas, 1) }

// startReplicas restores the replicas of a waking set that is at zero.
func startReplicas(in Input, m idle.Member, message string) plan.Plan {
	next := enterWaking(m.Sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Reason, next.Message = api.WakingUp, message
	return startAs(in, m, next)
}

// startForOwner restores the replicas in place of the set's operator.
func startForOwner(in Input, m idle.Member, message string) plan.Plan {
	next := enterWaking(m.Sleep, in.Now, in.Settings.ReadyTimeout+in.hookDeadlines(m))
	next.Step, next.Reason, next.Message = api.StartedForOwner, api.OwnerAway, message
	p := startAs(in, m, next)
	p.Actions = append(p.Actions, operation.NoteOf(m.Set, next, true))
	return p
}

// startAs restores the replicas of a waking set that is at zero, and stores the record.
func startAs(in Input, m idle.Member, next *api.Sleep) plan.Plan {
	if in.Scalers[m.Set.Name] != nil {
		next.OwnerStops = false // otherwise the Scaler would wait for the operator
	}
	patch := operation.Store(m.Set, next)
	resume := in.scale(patch, m, wantedReplicas(m.Sleep))
	actions := append(resume, patch.Actions()...) // the Scaler first, as in beginWaking
	return plan.Do(next.Reason, actions...).Then(events.WakeDecided, next.Operation)
}

// retryStartLater keeps the sleep of a set whose replicas the API server rejected, and schedules the next try.
func retryStartLater(in Input, m idle.Member, sleep *api.Sleep) plan.Plan {
	next := enterWaking(sleep, in.Now, in.Settings.SleepRetry)
	next.Step, next.Reason = api.AwaitsRetry, api.StartRefused
	next.Message = fmt.Sprintf("the API server rejected %d replicas: %s. Remove the cause, or scale the set yourself; "+
		"the next try is in %s", wantedReplicas(sleep), in.Rejected[m.Set.Name], in.Settings.SleepRetry)
	patch := operation.Store(m.Set, next).Unannotate(api.AbortAnnotation)
	return plan.Do(api.StartRefused, append(patch.Actions(), operation.NoteOf(m.Set, next, true))...)
}

// endReason returns StartedByOthers if another client woke the set, else Awake.
func endReason(sleep *api.Sleep) api.Reason {
	if sleep.Starts > 0 {
		return api.StartedByOthers
	}
	return api.Awake
}

// endMessage returns why the set is awake. It leaves out why the set had to wait before it started.
func endMessage(sleep *api.Sleep) string {
	if isWaitingToStart(sleep) {
		return "the set runs again"
	}
	return sleep.Message
}

// conclude ends the sleep: it restores the retention policy, and announces the end so that pause-owner resumes the owner.
func conclude(in Input, m idle.Member, phase api.Phase, reason api.Reason, message string) plan.Plan {
	next := operation.Conclude(m.Sleep, phase, in.Now, reason, message)
	next.ScaledToZeroAt, next.Failure, next.Step = nil, nil, ""
	announce := events.Scaled
	if phase == api.Failed {
		announce = events.OperationFailed
		if next.FailedAt == "" {
			next.FailedAt = api.Waking
		}
	}
	if replicas := statefulset.Replicas(m.Set); next.OwnerStops && (replicas < next.Replicas || in.Group.StoppedWithSibling(m)) {
		next.KeepMembers = max(next.KeepMembers, next.Replicas)
	} else if replicas >= next.KeepMembers {
		next.KeepMembers = 0
	}
	next.StartsLate = phase == api.Failed
	if idle.EnoughReady(m.Set, true) {
		next.ReadyAt, next.StartsLate = operation.Moment(in.Now), false
	}
	m.Sleep = next
	if next.WhenScaled != "" && !m.RetentionToRestore() {
		next.Message += fmt.Sprintf("; whenScaled stays %s until the last pods have ended", statefulset.Retain)
	}
	store := storeWithRetention(m)
	if in.isRejected(m) { // possibly because of whenScaled, so the sleep ends without it, and the next event tries it again
		store = operation.Store(m.Set, next)
	}
	actions := append(store.Unannotate(api.AbortAnnotation).Actions(), operation.NoteOf(m.Set, next, phase == api.Failed))
	for _, r := range in.Records[m.Set.Name] {
		actions = append(actions, plan.Delete(plan.ControllerRevisions, r.Revision))
	}
	return plan.Do(reason, actions...).Then(announce, next.Operation)
}

// giveUpRetention leaves whenScaled at Retain, because the API server rejects the former policy. Retain is safe: no claim is deleted.
func giveUpRetention(in Input, m idle.Member) plan.Plan {
	next := m.Sleep.Clone()
	next.WhenScaled = ""
	next.Message = fmt.Sprintf("%s; whenScaled stays %s, because the API server rejected %s: %s", m.Sleep.Message, statefulset.Retain,
		m.Sleep.WhenScaled, in.Rejected[m.Set.Name])
	note := plan.Event(m.Set.Namespace, m.Set.Name, plan.Note{Warning: true, Reason: api.Rejected, Message: next.Message, UID: m.Set.UID,
		Operation: next.Operation})
	return plan.Do(api.Rejected, append(operation.Store(m.Set, next).Actions(), note)...)
}

// storeWithRetention returns a patch that stores the ended sleep of the set. If no pods are ending, it also restores the former whenScaled.
func storeWithRetention(m idle.Member) *plan.Patch {
	if !m.RetentionToRestore() {
		return operation.Store(m.Set, m.Sleep)
	}
	next := m.Sleep.Clone()
	next.WhenScaled = ""
	patch, was := operation.Store(m.Set, next), m.Sleep.WhenScaled
	plan.Set(patch, statefulset.WhenScaledPath, statefulset.WhenScaled(m.Set), was, "whenScaled "+string(was))
	return patch
}
