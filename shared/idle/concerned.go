package idle

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

type functions = []api.Function

// Concerned returns the functions that a change of the set concerns as far as its sleep goes, when nothing is known of its group: what wakes
// it is seen in it, and idle-timeout finds out whether other members keep it awake.
func Concerned(c operation.Change) []api.Function {
	m := NewMember(c.Set, c.Records)
	return m.concerned(c, m.Alone(c.Now), m.Rules.Timeout)
}

// Concerned returns for each member of the group, in the order of its sorted members, the functions that the sweep wakes.
func (g Group) Concerned(now time.Time, retry time.Duration) [][]api.Function {
	timeout := g.Timeout()
	all := make([][]api.Function, len(g))
	for i, v := range g.Judge(now, time.Time{}) {
		all[i] = g[i].concerned(operation.Change{Set: g[i].Set, Now: now, Swept: true, Retry: retry}, v, timeout)
	}
	return all
}

// concerned judges a member by the verdict on it and by the timeout of its group. A set that is as awake as it is to be concerns no
// function, however long it sleeps.
func (m Member) concerned(c operation.Change, v Verdict, timeout time.Duration) []api.Function {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return nil
	case m.SleepErr != nil:
		return functions{api.IdleTimeout}
	case m.Sleep.Active():
		return m.concernedWhileActive(c, v)
	case c.Gone || !statefulset.Managed(m.Set) || m.Busy || !m.due(c, v, timeout):
		return nil
	}
	return functions{api.IdleTimeout}
}

// due reports whether idle-timeout has something to do on a set that no sleep holds.
func (m Member) due(c operation.Change, v Verdict, timeout time.Duration) bool {
	switch {
	case m.Err != nil:
		return !m.Complained()
	case statefulset.Replicas(m.Set) == 0:
		return m.Revives() > 0 && c.Now.Before(m.Rules.AwakeUntil)
	case !v.Awake:
		return !m.Rests(v, c.Now, c.Retry)
	}
	return timeout > 0 && m.Rules.LastActivity.IsZero()
}

// concernedWhileActive judges a set that sleeps, is about to, or wakes.
func (m Member) concernedWhileActive(c operation.Change, v Verdict) []api.Function {
	left := operation.Aborted(m.Set) || !statefulset.Managed(m.Set) || c.Gone
	wakes := v.Awake || left
	looked := c.Added || c.Swept // only the sweep knows of deadlines
	started := statefulset.Replicas(m.Set) > 0
	switch m.Sleep.Phase {
	case api.Planned:
		if wakes {
			return functions{api.IdleTimeout}
		}
		return functions{api.PauseOwner}
	case api.Stopping:
		if looked || wakes || started || statefulset.AtZero(m.Set) {
			return functions{api.IdleTimeout}
		}
	case api.Asleep:
		if wakes || started || m.fellAsleep(c) {
			return functions{api.IdleTimeout}
		}
	case api.Waking:
		return m.concernedWhileWaking(looked, left, started)
	}
	return nil
}

// concernedWhileWaking judges a set that wakes. An operator that has stopped the set is to start it, and pause-owner tells it so.
func (m Member) concernedWhileWaking(looked, left, started bool) []api.Function {
	switch {
	case m.Sleep.OwnerStops && looked:
		return functions{api.PauseOwner, api.IdleTimeout}
	case m.Sleep.OwnerStops && !started:
		return functions{api.PauseOwner}
	case looked || left || EnoughReady(m.Set, true):
		return functions{api.IdleTimeout}
	case operation.JustGivenBack(m.Set, m.Sleep):
		return functions{api.PauseOwner}
	}
	return nil
}

// fellAsleep reports whether a member of a group has just fallen asleep: another one may have waited for it.
func (m Member) fellAsleep(c operation.Change) bool {
	grouped := m.Set.Labels[api.GroupLabel] != ""
	return grouped && !c.Added && !c.Swept && m.Sleep.Quiesced != nil && c.Now.Sub(m.Sleep.Quiesced.Time) < moments
}

// moments is how long an event about a change takes at most, as a rule. The tick finds the rest.
const moments = 5 * time.Second
