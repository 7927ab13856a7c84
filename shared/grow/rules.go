// Package grow decides about growth by usage: which sets have rules for it, when a set is measured, and which measurements are reliable. It
// is pure.
package grow

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Rules are the growth rules of a set: its own rules, or the default rules of its namespace.
type Rules struct {
	templates map[string]api.GrowRule
	// Default is true if they are the rules of the namespace.
	Default bool
	// Source names the annotation or the ConfigMap's key with the rules, for messages.
	Source string
}

// RulesOf returns the rules of the set. config is the ConfigMap drydock-grow of its namespace, or nil.
func RulesOf(set *appsv1.StatefulSet, config *corev1.ConfigMap) (Rules, error) {
	text, hasOwn := set.Annotations[api.GrowAnnotation]
	where := fmt.Sprintf("annotation %s of StatefulSet %s/%s", api.GrowAnnotation, set.Namespace, set.Name)
	if !hasOwn {
		if config == nil {
			return Rules{}, nil
		}
		where = fmt.Sprintf("key %s of ConfigMap %s/%s", api.GrowKey, set.Namespace, config.Name)
		if text, hasOwn = config.Data[api.GrowKey]; !hasOwn {
			return Rules{}, fmt.Errorf("%s is missing. Add it, or delete the ConfigMap", where)
		}
	}
	templates, err := api.ParseGrow(text)
	if err != nil {
		return Rules{}, fmt.Errorf("%s cannot be read: %w", where, err)
	}
	return Rules{templates: templates, Default: set.Annotations[api.GrowAnnotation] == "", Source: where}, nil
}

// For returns the rule for the template, and whether there is one.
func (r Rules) For(template string) (api.GrowRule, bool) {
	rule, found := r.templates[template]
	if !found {
		rule, found = r.templates[api.AnyTemplate]
	}
	return rule, found
}

// UnknownTemplates returns the templates that the set's own rules name and that the set does not have. The default rules of a namespace may
// name templates of other sets, so it returns none for them.
func (r Rules) UnknownTemplates(set *appsv1.StatefulSet) []string {
	var names []string
	if r.Default {
		return nil
	}
	for name := range r.templates {
		if name != api.AnyTemplate && !hasTemplate(set, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func hasTemplate(set *appsv1.StatefulSet, template string) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		if set.Spec.VolumeClaimTemplates[i].Name == template {
			return true
		}
	}
	return false
}

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
