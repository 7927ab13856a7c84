// Package grow decides about growth by usage: which sets have rules for it, when a set is measured, and which measurements are reliable. It
// is pure.
package grow

import (
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
	// Default reports whether the namespace has rules for sets without their own rules.
	Default func(namespace string) bool
}

// Concerned returns grow-volumes if a sweep finds that the set is due. Only the sweep wakes it, because no event reports the usage of a
// volume.
func (p Schedule) Concerned(c operation.Change) []api.Function {
	if !c.Swept || c.Set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize) || c.Records.Resizing() ||
		!c.Due(string(c.Set.UID), p.Period) ||
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
