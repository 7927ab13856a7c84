package owners

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Resource names the kind's resource as the API server knows it: plural, version of the owner reference, group.
func (r Row) Resource(ref metav1.OwnerReference) (plan.Resource, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Version == "" {
		return "", fmt.Errorf("owner %s %s has the API version %q, which is none", ref.Kind, ref.Name, ref.APIVersion)
	}
	return plan.CustomResource(r.Plural(ref.Kind), gv), nil
}

// is reads the setting's value in the object; nil when it has none.
func (s Setting) is(object *unstructured.Unstructured) any {
	switch s.In {
	case Annotation:
		return valueIn(object.GetAnnotations(), s.Key)
	case Label:
		return valueIn(object.GetLabels(), s.Key)
	}
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, s.path()...) // a parent that is no object has no such field
	return value
}

func valueIn(m map[string]string, key string) any {
	if value, ok := m[key]; ok {
		return value
	}
	return nil
}

// holds reports whether the operator takes the setting as a pause.
func (s Setting) holds(object *unstructured.Unstructured) bool {
	is := s.is(object)
	return is != nil && (s.Presence || reflect.DeepEqual(is, s.Value))
}

// write makes the setting.
func (s Setting) write(p *plan.Patch, object *unstructured.Unstructured, value any) {
	switch s.In {
	case Annotation:
		p.Annotate(s.Key, value.(string))
	case Label:
		p.Label(s.Key, value.(string))
	case Field:
		p.SetField(object.Object, s.path(), value)
	}
}

// remove takes the setting away, with as many of a field's parents as were made for it and hold nothing else.
func (s Setting) remove(p *plan.Patch, object *unstructured.Unstructured, parents int) {
	switch s.In {
	case Annotation:
		p.Unannotate(s.Key)
	case Label:
		p.Unlabel(s.Key)
	case Field:
		path := s.path()
		for range parents {
			if siblings, _, _ := unstructured.NestedMap(object.Object, path[:len(path)-1]...); len(siblings) != 1 {
				break
			}
			path = path[:len(path)-1]
		}
		p.RemoveField(path)
	}
}

// missing counts the parents that a field lacks in the object.
func (s Setting) missing(object *unstructured.Unstructured) int {
	if s.In != Field {
		return 0
	}
	path := s.path()
	for i := range path {
		if _, found, _ := unstructured.NestedFieldNoCopy(object.Object, path[:i+1]...); !found {
			return len(path) - 1 - i
		}
	}
	return 0
}

// Paused reports whether the operator leaves the object's StatefulSets alone, whoever has asked it to.
func (r Row) Paused(object *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(r.Pause, func(s Setting) bool { return !s.holds(object) })
}

// Hold pauses the object for an operation. No actions means that it is paused: for this operation, or by somebody else
// before it, whose pause is left alone.
func (r Row) Hold(resource plan.Resource, object *unstructured.Unstructured, holder api.Holder) ([]plan.Action, error) {
	pause, err := api.LoadPause(object)
	if err != nil {
		return nil, err
	}
	if pause == nil && r.Paused(object) {
		return nil, nil
	}
	if pause == nil {
		pause = &api.Pause{Version: api.StatusVersion}
	}
	patch := plan.PatchOf(resource, object)
	for _, s := range r.Pause {
		if s.holds(object) {
			continue
		}
		if !slices.ContainsFunc(pause.Made, func(m api.Made) bool { return s.isOf(m) }) {
			pause.Made = append(pause.Made, api.Made{In: string(s.In), Key: s.Key, Value: s.Value, Was: s.is(object), Parents: s.missing(object)})
		}
		s.write(patch, object, s.Value)
	}
	if !slices.Contains(pause.For, holder) {
		pause.For = append(pause.For, holder)
	}
	return patch.Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
}

func (s Setting) isOf(m api.Made) bool { return string(s.In) == m.In && s.Key == m.Key }

// Release ends the pause for an operation. The last operation puts back what was there before, except what somebody else
// has changed since. No actions means that the object is not paused for it.
func Release(resource plan.Resource, object *unstructured.Unstructured, operation string) ([]plan.Action, error) {
	pause, err := api.LoadPause(object)
	if err != nil || pause == nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(pause.For), func(h api.Holder) bool { return h.Operation == operation })
	patch := plan.PatchOf(resource, object)
	if len(others) > 0 {
		if len(others) == len(pause.For) {
			return nil, nil
		}
		pause.For = others
		return patch.Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
	}
	for _, m := range pause.Made {
		s := Setting{In: Place(m.In), Key: m.Key}
		switch {
		case !reflect.DeepEqual(s.is(object), m.Value): // somebody else's now
		case m.Was == nil:
			s.remove(patch, object, m.Parents)
		default:
			s.write(patch, object, m.Was)
		}
	}
	return patch.Unannotate(api.OwnerPausedAnnotation).Actions(), nil
}
