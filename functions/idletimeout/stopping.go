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

// handleStopping waits until scale, or the set's operator, has scaled the set to zero.
func handleStopping(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, stopped := m.Sleep, isStopped(m)
	failed := failedStop(m)
	switch {
	case statefulset.AtZero(m.Set) && (stopped || sleep.OwnerStops):
		next := sleep.Clone()
		next.Phase, next.PodsGoneAt, next.Deadline = api.Asleep, operation.Moment(in.Now), nil
		if stopped {
			next.Replicas = m.Stop.Replicas
		}
		next.Reason, next.Message = api.FellAsleep, fmt.Sprintf("the set gets its %d replicas back when it is needed", next.Replicas)
		return plan.Do(api.FellAsleep, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, false))...).
			Then(events.Scaled, sleep.Operation)
	case m.Stop.Of(sleep) && m.Stop.RefusedAt != nil && !stopped:
		return failSleep(in, group, m, sleep, api.Rejected,
			fmt.Sprintf("the API server rejected a write of the scale-down: %s. Remove the cause", m.Stop.Refused))
	case failed != nil && !stopped:
		return failSleep(in, group, m, sleep, failed.Reason, fmt.Sprintf("the scale-down to zero failed: %s", failed.Message))
	case in.Now.After(in.stopDeadline(m)):
		return failSleep(in, group, m, sleep, api.DeadlineExceeded, whyNotStopped(in, m))
	case sleep.OwnerStops:
		return plan.Wait(api.ScalingDown, "its operator scales it to zero, %d replicas are left", m.Set.Status.Replicas)
	case stopped && statefulset.Replicas(m.Set) > 0:
		return handleStarted(in, group, m)
	}
	return plan.Wait(api.ScalingDown, "%d replicas are left", m.Set.Status.Replicas)
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
