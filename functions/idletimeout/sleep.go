package idletimeout

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// continueSleep returns the next step of a sleep.
func continueSleep(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	if m.Sleep.Phase == api.Planned && group.StoppedWithSibling(m) { // pause-owner has not stored that yet
		m.Sleep = m.Sleep.Clone()
		m.Sleep.OwnerStops = true
	}
	sleep := m.Sleep
	if sleep.Phase != api.Waking {
		ends := v.Awake || operation.Aborted(m.Set)
		untouched := !m.Stop.Of(sleep) && !sleep.OwnerStops && sleep.Phase != api.Asleep && (sleep.Phase == api.Stopping || ends)
		switch {
		case untouched && statefulset.Replicas(m.Set) == 0: // another client scaled the set to zero first, and is responsible for its wake-up
			return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero")
		case !statefulset.Managed(m.Set):
			return wake(in, group, m, sleep, api.WakingUp, "the set is no longer opted in")
		case operation.Aborted(m.Set):
			return failSleep(in, group, m, sleep, api.Aborted, "aborted at the user's request")
		case isStopped(m) && sleep.Phase != api.Planned && statefulset.Replicas(m.Set) > 0 && !members.OperatorIsLate(m.Set, in.Now):
			return handleStarted(in, group, m) // also if it is needed: a client that scales it to zero later means it
		case v.Awake:
			return wake(in, group, m, sleep, api.WakingUp, v.Why)
		}
	}
	switch sleep.Phase {
	case api.Stopping:
		return handleStopping(in, group, m)
	case api.Asleep:
		return handleAsleep(in, group, m)
	case api.Waking:
		return handleWaking(in, group, m)
	}
	return plan.Noop(api.NotOurPhase)
}

// handleAsleep handles a sleeping set that has no reason to wake, unless another client has started it.
func handleAsleep(in Input, group idle.Group, m idle.Member) plan.Plan {
	if statefulset.Replicas(m.Set) == 0 {
		return plan.Noop(api.StaysAsleep)
	}
	return handleStarted(in, group, m)
}
