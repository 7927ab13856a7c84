package idletimeout

import (
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

// newSleep returns the record of a new sleep. It takes over the counts of the previous sleep.
func (in Input) newSleep(m idle.Member, phase api.Phase, request string) *api.Sleep {
	if m.Sleep == nil {
		return idle.NewSleep(m.Set, phase, request, 1, in.Now, in.Trace)
	}
	sleep := idle.NewSleep(m.Set, phase, request, m.Sleep.Attempt+1, in.Now, in.Trace)
	sleep.Starts, sleep.StartsLate = m.Sleep.Starts, m.Sleep.StartsLate
	return sleep
}

// lostSleep returns the record of the sleep that stopped the set, as far as the Stop has it.
func (in Input) lostSleep(m idle.Member) *api.Sleep {
	sleep := in.newSleep(m, api.Asleep, idle.RequestAsked)
	sleep.Operation, sleep.Started, sleep.Replicas = m.Stop.Operation, *m.Stop.StoppedAt, m.Stop.Replicas
	return sleep
}

// refuseSleep stores why a set is not put to sleep, and reports it once.
func refuseSleep(in Input, m idle.Member, step api.SleepStep, reason api.Reason, message string) plan.Plan {
	sleep := in.newSleep(m, api.Refused, idle.RequestIdle)
	sleep.Step, sleep.Reason, sleep.Message, sleep.Finished = step, reason, message, operation.Moment(in.Now)
	sleep.RefusalDigest = operation.RefusalDigest(m.Set)
	if m.Sleep != nil {
		sleep.ReadyAt = m.Sleep.ReadyAt // the set has been ready since then
	}
	store := operation.Store(m.Set, sleep)
	if m.RetryRequested {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(reason, append(store.Actions(), operation.NoteOf(m.Set, sleep, true))...).Then(events.OperationFailed, sleep.Operation)
}

// storeCorrection stores that the cause of a refusal is gone, so that it no longer counts as a problem.
func storeCorrection(m idle.Member) plan.Plan {
	next := m.Sleep.Clone()
	next.Step, next.Reason, next.Message = api.CauseRemoved, api.CauseGone, "the annotations of the set are valid again"
	if m.Sleep.Step == api.AwaitsProbe {
		next.Message = "the activity probe was removed"
	}
	return plan.Do(api.CauseGone, operation.Store(m.Set, next).Actions()...)
}

// correctStart stores that the sleep began a minute ago. The activity of this event counts then.
func correctStart(in Input, m idle.Member) plan.Plan {
	next := m.Sleep.Clone()
	next.Started = *operation.Moment(in.Now.Add(-time.Minute))
	return plan.Do(api.StatusUpdated, operation.Store(m.Set, next).Actions()...)
}

// storeLateReady stores that a set became ready after its wake-up had failed. Its idle time begins now.
func storeLateReady(in Input, m idle.Member) plan.Plan {
	next := m.Sleep.Clone()
	next.ReadyAt, next.StartsLate = operation.Moment(in.Now), false
	if next.Phase == api.Failed { // a refusal of the next sleep keeps its cause
		next.Reason, next.Message = api.CauseGone, "the set became ready after its wake-up had failed"
	}
	return plan.Do(api.Awake, operation.Store(m.Set, next).Actions()...)
}

// isBackingOff reports whether the member's sleep failed recently and no event requests a retry.
func (in Input) isBackingOff(m idle.Member, v idle.Verdict) bool {
	return m.IsBackingOff(v, in.Now, in.Settings.SleepRetry) && !(in.Signal.Type == events.Retry && m.Set.Name == in.Name)
}

// isStopped reports whether scale has scaled the set to zero for its present sleep, and has not asked its pods back.
func isStopped(m idle.Member) bool { return m.Stop.Of(m.Sleep) && m.Stop.Pending() }

// isStarted reports whether scale has asked the pods back for the present sleep.
func isStarted(m idle.Member) bool { return m.Stop.Of(m.Sleep) && m.Stop.StartedAt != nil }

// stopDeadline returns when the sleep gives up the stop. The pods have their time from the moment when they are told to stop.
func (in Input) stopDeadline(m idle.Member) time.Time {
	deadline := m.Sleep.Deadline
	switch {
	case isStopped(m):
		return m.Stop.StoppedAt.Add(in.Settings.QuiesceTimeout + statefulset.GracePeriod(m.Set) + in.hookDeadlines(m))
	case deadline == nil: // only in a record that another client has written
		return in.Now
	}
	return deadline.Add(in.hookDeadlines(m))
}

// whyNotStopped says what has not happened before the deadline of the stop.
func whyNotStopped(in Input, m idle.Member) string {
	switch limit := in.Settings.QuiesceTimeout; {
	case m.Sleep.OwnerStops && statefulset.Replicas(m.Set) > 0:
		return fmt.Sprintf("its operator did not scale the set to zero within %s and the grace period of its pods. Check the operator", limit)
	case !isStopped(m) && !m.Sleep.OwnerStops:
		return fmt.Sprintf("the set was not scaled to zero within %s and the grace period of its pods. Read the log of scale", limit)
	default:
		return fmt.Sprintf("%s did not end within %s and the grace period, so the set is started again. Check the pods, their "+
			"finalizers and their nodes", text.Number(int(m.Set.Status.Replicas), "pod", "pods"), limit)
	}
}

// handleStarted handles a set that another client has scaled up during its sleep: it is needed. scale stops it once more if its
// operator may just have been late.
func handleStarted(in Input, group idle.Group, m idle.Member) plan.Plan {
	if isStopped(m) && members.OperatorIsLate(m.Set, in.Now) {
		return plan.Wait(api.ScalingDown, "its operator may not know yet that it is paused, so the set is scaled to zero once more")
	}
	return wakeStarted(in, group, m, fmt.Sprintf("%s scaled the set to %d replicas", replicasWriter(m.Set), statefulset.Replicas(m.Set)))
}
