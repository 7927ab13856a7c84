package owners

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// on are the settings of the means with the object's own items in the place of each [*].
func (r Row) on(by Means, object *unstructured.Unstructured) ([]Setting, error) {
	if !r.Can(by) {
		return nil, fmt.Errorf("%s: Drydock knows no %s for it", nameFor(object), by)
	}
	var all []Setting
	for _, s := range r.settings(by) {
		if s.In != Field {
			all = append(all, s)
			continue
		}
		paths, err := expand(object.Object, "", stepsOf(s.Key))
		if err != nil {
			return nil, fmt.Errorf("%s: field %s cannot be set: %w", nameFor(object), s.Key, err)
		}
		for _, path := range paths {
			all = append(all, Setting{In: Field, Key: path, Value: s.Value})
		}
	}
	return all, nil
}

func nameFor(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
}

// is reads the setting's value in the object; nil when it has none. A null is none.
func (s Setting) is(object *unstructured.Unstructured) any {
	switch s.In {
	case Annotation:
		return valueIn(object.GetAnnotations(), s.Key)
	case Label:
		return valueIn(object.GetLabels(), s.Key)
	}
	names, _ := pointer(object.Object, s.Key)
	if names == nil {
		return nil
	}
	return at(object.Object, names)
}

func valueIn(m map[string]string, key string) any {
	if value, ok := m[key]; ok {
		return value
	}
	return nil
}

// holds reports whether the operator takes the setting as made.
func (s Setting) holds(object *unstructured.Unstructured) bool {
	is := s.is(object)
	return is != nil && (s.Presence || reflect.DeepEqual(is, s.Value))
}

// write makes the setting. The value of an annotation and a label is a string (understood, mistakes).
func (s Setting) write(p *plan.Patch, object *unstructured.Unstructured, value any) {
	switch s.In {
	case Annotation:
		p.Annotate(s.Key, value.(string))
	case Label:
		p.Label(s.Key, value.(string))
	case Field:
		if names, found := pointer(object.Object, s.Key); found {
			p.SetField(object.Object, names, value)
		}
	}
}

// remove takes the setting away, with as many of a field's parents as were made for it and hold nothing else. The object is
// what the patch has left so far, and loses the field, too.
func (s Setting) remove(p *plan.Patch, left *unstructured.Unstructured, parents int) {
	switch s.In {
	case Annotation:
		p.Unannotate(s.Key)
	case Label:
		p.Unlabel(s.Key)
	case Field:
		names, found := pointer(left.Object, s.Key)
		if !found {
			return
		}
		around, _ := at(left.Object, names[:len(names)-1]).(map[string]any)
		for ; parents > 0 && len(around) == 1; parents-- {
			names = names[:len(names)-1]
			around, _ = at(left.Object, names[:len(names)-1]).(map[string]any)
		}
		delete(around, names[len(names)-1])
		p.RemoveField(names)
	}
}

// missing counts the parents that a field lacks in the object.
func (s Setting) missing(object *unstructured.Unstructured) int {
	if s.In != Field {
		return 0
	}
	names, _ := pointer(object.Object, s.Key)
	for i := range names {
		if at(object.Object, names[:i+1]) == nil {
			return len(names) - 1 - i
		}
	}
	return 0
}

// made reports whether the setting is what the record says, in whatever item of a list.
func (s Setting) made(m api.Made) bool {
	return string(s.In) == m.In && s.Key == general(m.Key) && reflect.DeepEqual(s.Value, m.Value)
}
