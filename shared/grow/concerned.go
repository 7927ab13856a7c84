// Package grow has the rules of growth by usage: which sets ask for it, when a set is measured, and which measurements are reliable. It is pure.
package grow

import (
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Plan is how often sets are measured, and which namespaces have rules.
type Plan struct {
	// Period is how often each set is measured.
	Period time.Duration
	// Since is when the sweep before this one was; zero if that is not known.
	Since time.Time
	// Default reports whether the namespace has rules for sets without their own.
	Default func(namespace string) bool
}

// Concerned returns grow-volumes if the sweep finds that the set is due. Nothing else wakes it: no event tells how full a volume is.
func (p Plan) Concerned(c operation.Change) []api.Function {
	if !c.Swept || c.Set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize) || c.Records.Resizing() || !p.due(c.Set, c.Now) ||
		!Asks(c.Set, p.Default(c.Set.Namespace)) && !outdated(c.Set) {
		return nil
	}
	return []api.Function{api.GrowVolumes}
}

// outdated reports whether the set has Warnings from when it asked to grow, which are to be taken back.
func outdated(set *appsv1.StatefulSet) bool {
	memory, err := api.LoadGrowth(set)
	return err == nil && memory != nil && len(memory.Told) > 0 && statefulset.Managed(set)
}

// Asks reports whether the set asks to grow: by its annotation or, without one, by the default of its namespace.
func Asks(set *appsv1.StatefulSet, byDefault bool) bool {
	text, own := set.Annotations[api.GrowAnnotation]
	return statefulset.Managed(set) && len(set.Spec.VolumeClaimTemplates) > 0 && statefulset.Replicas(set) > 0 && (own && text != api.GrowOff || !own && byDefault)
}

// due reports whether the set's minute has come since the sweep before. The UID tells which minute of the period is the set's, so nothing is
// stored for each set, and many sets are spread over the period. Ticks may be further apart than a minute (DRYDOCK_TICK), and come a little
// early or late.
func (p Plan) due(set *appsv1.StatefulSet, now time.Time) bool {
	period := int64(p.Period / time.Minute)
	if period <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(set.UID)) //nolint:errcheck // a hash takes everything
	last := minute(now)
	first := last
	if !p.Since.IsZero() && minute(p.Since) <= last { // clocks are set back
		first = max(minute(p.Since), last-period) + 1
	}
	for m := first; m <= last; m++ {
		if m%period == int64(h.Sum32())%period {
			return true
		}
	}
	return false
}

// minute returns the number of the minute that is nearest.
func minute(t time.Time) int64 { return t.Add(time.Minute/2).Unix() / 60 }
