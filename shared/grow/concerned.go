// Package grow decides about growth by usage: which sets have rules for it, when a set is measured, and which measurements are reliable. It
// is pure.
package grow

import (
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Schedule defines how often a sweep measures sets, and which namespaces have default rules.
type Schedule struct {
	// Period is the time between two measurements of a set.
	Period time.Duration
	// PreviousSweep is the time of the previous sweep; zero if it is unknown.
	PreviousSweep time.Time
	// Default reports whether the namespace has rules for sets without their own rules.
	Default func(namespace string) bool
}

// Concerned returns grow-volumes if a sweep finds that the set is due. Only the sweep wakes it, because no event reports the usage of a
// volume.
func (p Schedule) Concerned(c operation.Change) []api.Function {
	if !c.Swept || c.Set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize) || c.Records.Resizing() || !p.isDue(c.Set, c.Now) ||
		!IsEnabled(c.Set, p.Default(c.Set.Namespace)) && !hasOutdatedWarnings(c.Set) {
		return nil
	}
	return []api.Function{api.GrowVolumes}
}

// hasOutdatedWarnings reports whether the set has stored warnings about growth. If the set no longer has rules, grow-volumes must remove
// them.
func hasOutdatedWarnings(set *appsv1.StatefulSet) bool {
	memory, err := api.LoadGrowth(set)
	return err == nil && memory != nil && len(memory.Warnings) > 0 && statefulset.Managed(set)
}

// IsEnabled reports whether growth is enabled for the set: by its own annotation or, without one, by the default of its namespace.
func IsEnabled(set *appsv1.StatefulSet, namespaceDefault bool) bool {
	text, hasOwn := set.Annotations[api.GrowAnnotation]
	return statefulset.Managed(set) && len(set.Spec.VolumeClaimTemplates) > 0 && statefulset.Replicas(set) > 0 &&
		(hasOwn && text != api.GrowOff || !hasOwn && namespaceDefault)
}

// isDue reports whether the set's minute has passed since the previous sweep. The set's UID determines its minute within the period. This
// spreads many sets over the period and stores nothing. Ticks may be more than a minute apart (DRYDOCK_TICK), and a little early or late.
func (p Schedule) isDue(set *appsv1.StatefulSet, now time.Time) bool {
	period := int64(p.Period / time.Minute)
	if period <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(set.UID)) // writing to a hash never fails
	last := minute(now)
	first := last
	if !p.PreviousSweep.IsZero() && minute(p.PreviousSweep) <= last { // a clock that was set back makes Since later than now
		first = max(minute(p.PreviousSweep), last-period) + 1
	}
	for m := first; m <= last; m++ {
		if m%period == int64(h.Sum32())%period {
			return true
		}
	}
	return false
}

// minute returns the number of the nearest minute.
func minute(t time.Time) int64 { return t.Add(time.Minute/2).Unix() / 60 }
