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
		!c.Due(string(c.Set.UID), p.Period) {
		return nil
	}
	if enabled := IsEnabled(c.Set, p.Default(c.Set.Namespace)); enabled && statefulset.Replicas(c.Set) > 0 || isOutdated(c.Set, enabled) {
		return []api.Function{api.GrowVolumes}
	}
	return nil
}

// isOutdated reports whether grow-volumes must remove stored warnings, or the floors of a set without growth.
func isOutdated(set *appsv1.StatefulSet, enabled bool) bool {
	growth, err := api.LoadGrowth(set)
	_, raised := set.Annotations[api.GrowToAnnotation]
	return statefulset.Managed(set) && err == nil && (raised && !enabled || growth != nil && len(growth.Warnings) > 0)
}

// IsEnabled reports whether growth is enabled for the set: by its own annotation or, without one, by the default of its namespace. A set
// without replicas does not grow, but keeps its floors.
func IsEnabled(set *appsv1.StatefulSet, namespaceDefault bool) bool {
	text, hasOwn := set.Annotations[api.GrowAnnotation]
	return statefulset.Managed(set) && len(set.Spec.VolumeClaimTemplates) > 0 && (hasOwn && text != api.GrowOff || !hasOwn && namespaceDefault)
}
