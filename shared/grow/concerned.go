// Package grow has the rules of growth by usage: which sets ask for it, when a set is measured, and which measurements are reliable. It is pure.
package grow

import (
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
)

// Plan is how often sets are measured, and which namespaces have rules.
type Plan struct {
	// Period is how often each set is measured.
	Period time.Duration
	// Default reports whether the namespace has rules for sets without their own.
	Default func(namespace string) bool
}

// Concerned returns grow-volumes if the sweep finds that the set is due. Nothing else wakes it: no event tells how full a volume is.
func (p Plan) Concerned(c operation.Change) []api.Function {
	if !c.Swept || !Asks(c.Set, p.Default(c.Set.Namespace)) || c.Set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize) ||
		c.Records.Resizing() || !p.due(c.Set, c.Now) {
		return nil
	}
	return []api.Function{api.GrowVolumes}
}

// Asks reports whether the set asks to grow: by its annotation or, without one, by the default of its namespace.
func Asks(set *appsv1.StatefulSet, byDefault bool) bool {
	text, own := set.Annotations[api.GrowAnnotation]
	return sts.Managed(set) && len(set.Spec.VolumeClaimTemplates) > 0 && sts.Replicas(set) > 0 && (own && text != api.GrowOff || !own && byDefault)
}

// due reports whether the set is measured in this minute. The minute of the period follows from the UID, so nothing is stored and many sets are
// spread over the period. Ticks come each minute, a little early or late.
func (p Plan) due(set *appsv1.StatefulSet, now time.Time) bool {
	minutes := int64(p.Period / time.Minute)
	if minutes <= 1 {
		return true
	}
	h := fnv.New32a()
	h.Write([]byte(set.UID)) //nolint:errcheck // a hash takes everything
	return now.Add(time.Minute/2).Unix()/60%minutes == int64(h.Sum32())%minutes
}
