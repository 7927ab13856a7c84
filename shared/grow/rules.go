package grow

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// Rules are those of a set: its own, or the default of its namespace.
type Rules struct {
	templates map[string]api.GrowRule
	// Default reports whether they are those of the namespace.
	Default bool
	// Where is the annotation or the key of the ConfigMap that they are from, for messages.
	Where string
}

// RulesOf returns the rules of the set. The ConfigMap is that of its namespace, nil where there is none.
func RulesOf(set *appsv1.StatefulSet, config *corev1.ConfigMap) (Rules, error) {
	text, own := set.Annotations[api.GrowAnnotation]
	where := fmt.Sprintf("annotation %s of StatefulSet %s/%s", api.GrowAnnotation, set.Namespace, set.Name)
	if !own {
		if config == nil {
			return Rules{}, nil
		}
		where = fmt.Sprintf("key %s of ConfigMap %s/%s", api.GrowKey, set.Namespace, config.Name)
		if text, own = config.Data[api.GrowKey]; !own {
			return Rules{}, fmt.Errorf("%s is missing. Write it, or delete the ConfigMap", where)
		}
	}
	templates, err := api.ParseGrow(text)
	if err != nil {
		return Rules{}, fmt.Errorf("%s cannot be read: %w", where, err)
	}
	return Rules{templates: templates, Default: set.Annotations[api.GrowAnnotation] == "", Where: where}, nil
}

// For returns the rule for the template; false if there is none.
func (r Rules) For(template string) (api.GrowRule, bool) {
	rule, named := r.templates[template]
	if !named {
		rule, named = r.templates[api.AnyTemplate]
	}
	return rule, named
}

// Unknown returns the templates that the set's own rules name and the set does not have. The rules of a namespace may name templates of other
// sets.
func (r Rules) Unknown(set *appsv1.StatefulSet) []string {
	var names []string
	if r.Default {
		return nil
	}
	for name := range r.templates {
		if name != api.AnyTemplate && !has(set, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func has(set *appsv1.StatefulSet, template string) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		if set.Spec.VolumeClaimTemplates[i].Name == template {
			return true
		}
	}
	return false
}
