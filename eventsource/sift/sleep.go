package sift

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
)

// concernsOfSleep judges a set alone or in its group, whose timeout holds for it. A set that is as awake as it is to be wakes no
// function, however long it sleeps.
func concernsOfSleep(m idle.Member, v idle.Verdict, timeout time.Duration, change string, now time.Time, retry time.Duration) []api.Function {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return nil
	case m.NapErr != nil:
		return []api.Function{api.IdleTimeout}
	case m.Nap.Active():
		return concernsOfNap(m, v, change, now)
	case change == events.SourceDelete || !sts.Managed(m.Set):
		return nil
	}
	if !m.Busy && wantsLook(m, v, timeout, now, retry) {
		return []api.Function{api.IdleTimeout}
	}
	return nil
}

// wantsLook is about a set that no sleep of Drydock's concerns.
func wantsLook(m idle.Member, v idle.Verdict, timeout time.Duration, now time.Time, retry time.Duration) bool {
	running := sts.Replicas(m.Set) > 0
	switch {
	case m.Err != nil:
		return !m.Complained()
	case !running:
		return m.Revives() > 0 && now.Before(m.Rules.AwakeUntil)
	case !v.Awake:
		return !m.Rests(v, now, retry)
	}
	return timeout > 0 && m.Rules.LastActivity.IsZero()
}

// concernsOfNap is about a set that sleeps, or is about to, or wakes.
func concernsOfNap(m idle.Member, v idle.Verdict, change string, now time.Time) []api.Function {
	_, abort := m.Set.Annotations[api.AbortAnnotation]
	left := abort || !sts.Managed(m.Set) || change == events.SourceDelete // who loses its label is gone from the watch
	wakes := v.Awake || left
	looked := change == events.SourceAdd // the sweep, which knows of deadlines
	started := sts.Replicas(m.Set) > 0
	switch m.Nap.Phase {
	case api.Planned:
		if wakes {
			return []api.Function{api.IdleTimeout}
		}
		return []api.Function{api.PauseOwner}
	case api.Stopping:
		if looked || wakes || started || sts.AtZero(m.Set) {
			return []api.Function{api.IdleTimeout}
		}
	case api.Asleep:
		if wakes || started || fellAsleep(m, change, now) {
			return []api.Function{api.IdleTimeout}
		}
	case api.Waking:
		switch {
		case m.Nap.OwnerStops && looked:
			return []api.Function{api.PauseOwner, api.IdleTimeout}
		case m.Nap.OwnerStops && !started:
			return []api.Function{api.PauseOwner} // its operator is to start it
		case looked || left || idle.EnoughReady(m.Set, true):
			return []api.Function{api.IdleTimeout}
		case justGivenBack(m.Set, m.Nap):
			return []api.Function{api.PauseOwner}
		}
	}
	return nil
}

// justGivenBack reports whether a set with an owner has its replicas back, and none is ready yet: the owner may be paused.
func justGivenBack(set *appsv1.StatefulSet, status operation.Record) bool {
	return sts.Controller(set) != nil && operation.GivenBack(set, status) && sts.Seen(set) && set.Status.ReadyReplicas == 0
}

// fellAsleep reports whether a member of a group has just fallen asleep: another one may have waited for it.
func fellAsleep(m idle.Member, change string, now time.Time) bool {
	grouped := m.Set.Labels[api.GroupLabel] != ""
	return grouped && change == events.SourceUpdate && m.Nap.Quiesced != nil && now.Sub(m.Nap.Quiesced.Time) < moments
}

// moments is how long an event about a change takes at most, as a rule. The tick finds the rest.
const moments = 5 * time.Second
