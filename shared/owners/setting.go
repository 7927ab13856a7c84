package owners

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// settingsOn returns the settings for the means, with the object's own items in place of each [*].
func (r Row) settingsOn(by Means, object *unstructured.Unstructured) ([]Setting, error) {
	if !r.Supports(by) {
		return nil, fmt.Errorf("%s has no %s in the table of operators", describe(object), by)
	}
	var all []Setting
	for _, s := range r.settings(by) {
		if s.In != Field {
			all = append(all, s)
			continue
		}
		paths, err := expandItems(object.Object, "", parsePath(s.Key))
		if err != nil {
			return nil, fmt.Errorf("%s: field %s cannot be set: %w", describe(object), s.Key, err)
		}
		for _, path := range paths {
			all = append(all, Setting{In: Field, Key: path, Value: s.Value})
		}
	}
	return all, nil
}

// describe returns the object's kind, namespace and name.
func describe(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
}

// valueOn returns the setting's value in the object, or nil. A null counts as no value.
func (s Setting) valueOn(object *unstructured.Unstructured) any {
	switch s.In {
	case Annotation:
		return valueIn(object.GetAnnotations(), s.Key)
	case Label:
		return valueIn(object.GetLabels(), s.Key)
	}
	names, _ := resolvePath(object.Object, s.Key)
	if names == nil {
		return nil
	}
	return valueAt(object.Object, names)
}

// valueIn returns the value of the key, or nil.
func valueIn(m map[string]string, key string) any {
	if value, ok := m[key]; ok {
		return value
	}
	return nil
}

// isSetOn reports whether the operator sees the setting as made.
func (s Setting) isSetOn(object *unstructured.Unstructured) bool {
	value := s.valueOn(object)
	return value != nil && (s.Presence || reflect.DeepEqual(value, s.Value))
}

// write makes the setting. The value of an annotation or label is a string, as checkMade and mistakes ensure.
func (s Setting) write(p *plan.Patch, object *unstructured.Unstructured, value any) {
	switch s.In {
	case Annotation:
		p.Annotate(s.Key, value.(string))
	case Label:
		p.Label(s.Key, value.(string))
	case Field:
		if names, found := resolvePath(object.Object, s.Key); found {
			p.SetField(object.Object, names, value)
		}
	}
}

// remove takes the setting away, together with those of a field's parents that were created for it and hold nothing else. The object is
// the remainder after the patch so far; the field is also removed from it.
func (s Setting) remove(p *plan.Patch, left *unstructured.Unstructured, parents int) {
	switch s.In {
	case Annotation:
		p.Unannotate(s.Key)
	case Label:
		p.Unlabel(s.Key)
	case Field:
		names, found := resolvePath(left.Object, s.Key)
		if !found {
			return
		}
		parent, _ := valueAt(left.Object, names[:len(names)-1]).(map[string]any)
		for ; parents > 0 && len(parent) == 1; parents-- {
			names = names[:len(names)-1]
			parent, _ = valueAt(left.Object, names[:len(names)-1]).(map[string]any)
		}
		delete(parent, names[len(names)-1])
		p.RemoveField(names)
	}
}

// missingParents returns how many parents of a field the object lacks.
func (s Setting) missingParents(object *unstructured.Unstructured) int {
	if s.In != Field {
		return 0
	}
	names, _ := resolvePath(object.Object, s.Key)
	for i := range names {
		if valueAt(object.Object, names[:i+1]) == nil {
			return len(names) - 1 - i
		}
	}
	return 0
}

// matches reports whether the setting is the recorded one, in any item of a list.
func (s Setting) matches(m api.PausedSetting) bool {
	return string(s.In) == m.In && s.Key == withAllItems(m.Key) && reflect.DeepEqual(s.Value, m.Value)
}
