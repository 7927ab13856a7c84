package idle

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

type functions = []api.Function

// Concerned returns the functions that a change of the set concerns because of its sleep. It does not know the set's group. It may
// name idle-timeout unnecessarily, which then reads the whole group.
func Concerned(c operation.Change) []api.Function {
	m := NewMember(c.Set, c.Records)
	return m.concerned(c, m.VerdictAlone(c.Now), m.Rules.Timeout)
}

// Concerned returns the functions that the sweep wakes, for each member of the group in its order. The change has no set.
func (g Group) Concerned(c operation.Change) [][]api.Function {
	timeout := g.Timeout()
	all := make([][]api.Function, len(g))
	for i, v := range g.Verdicts(c.Now, time.Time{}) {
		c.Set = g[i].Set
		all[i] = g[i].concerned(c, v, timeout)
	}
	return all
}

// concerned returns the functions for a member by its verdict and the timeout of its group. A set that is already in the required
// state concerns no function.
func (m Member) concerned(c operation.Change, v Verdict, timeout time.Duration) []api.Function {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return nil
	case m.SleepErr != nil, m.BeganInFuture(c.Now):
		return functions{api.IdleTimeout}
	case m.Sleep.Active():
		return m.concernedWhileActive(c, v)
	case c.Gone || !statefulset.Managed(m.Set):
		return nil
	case m.LostSleep, !m.Busy && m.hasWork(c, v, timeout):
		return functions{api.IdleTimeout}
	case !m.Busy && RefusedByOwner(m.Sleep) && operation.RefusalDue(c, &m.Sleep.Header):
		return functions{api.PauseOwner}
	}
	return nil
}

// hasWork reports whether idle-timeout has work on a set without an active sleep.
func (m Member) hasWork(c operation.Change, v Verdict, timeout time.Duration) bool {
	switch {
	case m.Err != nil:
		return !m.InvalidReported()
	case m.BecameReadyLate():
		return true
	case m.IsCorrected(): // only the sweep knows whether the dependencies in the group are valid
		return c.Swept || m.Set.Labels[api.GroupLabel] == ""
	case statefulset.Replicas(m.Set) == 0:
		return m.ReplicasAtWake() > 0 && c.Now.Before(m.Rules.AwakeUntil)
	case !v.Awake:
		return !m.IsBackingOff(v, c.Now, c.Retry)
	}
	return timeout > 0 && m.Rules.LastActivity.IsZero()
}

// concernedWhileActive returns the functions for a set with an active sleep.
func (m Member) concernedWhileActive(c operation.Change, v Verdict) []api.Function {
	left := operation.Aborted(m.Set) || c.Gone
	wakes := v.Awake || left
	swept := c.Added || c.Swept // only the sweep finds passed deadlines
	started := statefulset.Replicas(m.Set) > 0
	switch m.Sleep.Phase {
	case api.Planned:
		if wakes {
			return functions{api.IdleTimeout}
		}
		return functions{api.PauseOwner}
	case api.Stopping:
		if swept || wakes || started || m.refused() || statefulset.AtZero(m.Set) {
			return functions{api.IdleTimeout}
		}
	case api.Asleep:
		if wakes && !swept && !m.Sleep.OwnerStops { // scale starts while idle-timeout decides
			return functions{api.IdleTimeout, api.ScaleFunction}
		}
		if wakes || started || m.fellAsleep(c) {
			return functions{api.IdleTimeout}
		}
	case api.Waking:
		return m.concernedWhileWaking(swept, left, started)
	}
	return nil
}

// concernedWhileWaking returns the functions for a set that wakes. If its operator stopped the set, pause-owner has the operator start
// it.
func (m Member) concernedWhileWaking(swept, left, started bool) []api.Function {
	switch {
	case m.Sleep.OwnerStops && swept:
		return functions{api.PauseOwner, api.IdleTimeout}
	case m.Sleep.OwnerStops && !started:
		return functions{api.PauseOwner}
	case swept || left || m.refused() || EnoughReady(m.Set, true):
		return functions{api.IdleTimeout}
	case operation.JustGivenBack(m.Set, m.Sleep):
		return functions{api.PauseOwner}
	}
	return nil
}

// refused reports whether the API server rejected the count for the sleep.
func (m Member) refused() bool { return m.Stop.Of(m.Sleep) && m.Stop.RefusedAt != nil }

// fellAsleep reports whether a member of a group has just fallen asleep, so that another member may have waited for it.
func (m Member) fellAsleep(c operation.Change) bool {
	grouped := m.Set.Labels[api.GroupLabel] != ""
	return grouped && !c.Added && !c.Swept && m.Sleep.PodsGoneAt != nil && c.Now.Sub(m.Sleep.PodsGoneAt.Time) < usualDelay
}

// usualDelay is the usual maximum delay of an event about a change. The tick finds later changes.
const usualDelay = 5 * time.Second
