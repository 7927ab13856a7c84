package idletimeout

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/statefulset"
)

// awakeDependent returns the name of a member that depends on m and is not asleep, or "". A member that is being deleted falls asleep no
// more: it counts as long as it has pods.
func awakeDependent(group idle.Group, m idle.Member) string {
	for _, other := range group {
		deleted := other.Set.DeletionTimestamp != nil && other.Set.Status.Replicas == 0
		if !deleted && slices.Contains(other.Rules.DependsOn, m.Set.Name) && !isAsleep(other) {
			return other.Set.Name
		}
	}
	return ""
}

// isAsleep reports whether the set is at zero and has no sleep in another phase.
func isAsleep(m idle.Member) bool {
	return statefulset.AtZero(m.Set) && (!m.Sleep.Active() || m.Sleep.Phase == api.Asleep)
}

// unreadyDependency returns the name of a member that m depends on and that is not ready, or "".
func unreadyDependency(group idle.Group, m idle.Member) string {
	for _, name := range m.Rules.DependsOn {
		other := group.Find(name)
		if other == nil || !other.CanWake() { // it left the group or stays at zero, so a wait would never end
			continue
		}
		if !idle.EnoughReady(other.Set, other.Sleep.Active()) {
			return name
		}
	}
	return ""
}
