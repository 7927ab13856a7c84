package owners

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	numbers "k8s.io/apimachinery/pkg/util/json"

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

// Held reports whether the object is paused or stopped, whoever has asked for it.
func (r Row) Held(by Means, object *unstructured.Unstructured) bool {
	settings, err := r.on(by, object)
	return err == nil && hold(settings, object)
}

func hold(settings []Setting, object *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(settings, func(s Setting) bool { return !s.holds(object) })
}

// Paused reports whether the operator leaves the object's StatefulSets alone, whoever has asked it to.
func (r Row) Paused(object *unstructured.Unstructured) bool { return r.Held(ByPause, object) }

// Hold pauses or stops the object for an operation. No actions means that it is already: for this operation, or by
// somebody else before it, whose setting is left alone. What one operation holds by a pause no other can hold by a stop:
// an operator that looks away does not stop.
func (r Row) Hold(by Means, resource plan.Resource, object *unstructured.Unstructured, holder api.Holder) ([]plan.Action, error) {
	pause, err := load(object)
	if err != nil {
		return nil, err
	}
	if err := r.apart(by, object, pause); err != nil {
		return nil, err
	}
	settings, err := r.on(by, object)
	if err != nil || pause == nil && hold(settings, object) {
		return nil, err
	}
	if by == ByStop && !hold(settings, object) && r.Paused(object) {
		return nil, fmt.Errorf("%s: it is paused, so its operator would not stop it; end the pause and ask again", nameFor(object))
	}
	if pause == nil {
		pause = &api.Pause{Version: api.PauseVersion}
	}
	patch := plan.PatchOf(resource, object)
	for _, s := range settings {
		if s.holds(object) {
			continue
		}
		if !slices.ContainsFunc(pause.Made, func(m api.Made) bool { return string(s.In) == m.In && s.Key == m.Key }) {
			pause.Made = append(pause.Made, api.Made{In: string(s.In), Key: s.Key, Value: s.Value, Was: s.is(object), Parents: s.missing(object)})
		}
		s.write(patch, object, s.Value)
	}
	if !slices.Contains(pause.For, holder) {
		pause.For = append(pause.For, holder)
	}
	return patch.Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
}

// apart refuses the means when the object is held already with a setting that they do not make.
func (r Row) apart(by Means, object *unstructured.Unstructured, pause *api.Pause) error {
	if pause == nil {
		return nil
	}
	for _, m := range pause.Made {
		if slices.ContainsFunc(r.settings(by), func(s Setting) bool { return s.made(m) }) {
			continue
		}
		var holders []string
		for _, h := range pause.For {
			holders = append(holders, h.Operation+" of StatefulSet "+h.Set)
		}
		return fmt.Errorf("%s: Drydock holds it with the %s %s for operation %s, and no %s goes with that; ask again when that has ended",
			nameFor(object), m.In, m.Key, strings.Join(holders, ", "), by)
	}
	return nil
}

// Release ends the hold for an operation, by whatever means it was. The last operation puts back what was there before,
// except what somebody else has changed since. No actions means that the object is not held for it.
func Release(resource plan.Resource, object *unstructured.Unstructured, operation string) ([]plan.Action, error) {
	pause, err := load(object)
	if err != nil || pause == nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(pause.For), func(h api.Holder) bool { return h.Operation == operation })
	if len(others) == 0 {
		return putBack(resource, object, pause.Made), nil
	}
	if len(others) == len(pause.For) {
		return nil, nil
	}
	pause.For = others
	return plan.PatchOf(resource, object).Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
}

// ReleaseAll ends the hold for every operation: an operator's stop is for all of its StatefulSets, so the first one that
// is needed again ends it. No actions means that nobody holds the object.
func ReleaseAll(resource plan.Resource, object *unstructured.Unstructured) ([]plan.Action, error) {
	pause, err := load(object)
	if err != nil || pause == nil {
		return nil, err
	}
	return putBack(resource, object, pause.Made), nil
}

// putBack undoes what was made, in the one patch that removes the record of it. Nothing before is nothing afterwards: the
// API server or the operator fills in the same default as before.
func putBack(resource plan.Resource, object *unstructured.Unstructured, made []api.Made) []plan.Action {
	patch, left := plan.PatchOf(resource, object), object.DeepCopy()
	for _, m := range made {
		s := Setting{In: Place(m.In), Key: m.Key}
		switch {
		case !reflect.DeepEqual(s.is(object), m.Value): // somebody else's now, or gone with its item of a list
		case m.Was == nil:
			s.remove(patch, left, m.Parents)
		default:
			s.write(patch, object, m.Was)
		}
	}
	return patch.Unannotate(api.OwnerPausedAnnotation).Actions()
}

// load reads what Drydock did to the object, with its numbers as the object has them, as int64 or float64: with those that
// encoding/json makes, 3 replicas would not be equal to 3, and a large number would come back as another.
func load(object *unstructured.Unstructured) (*api.Pause, error) {
	pause, err := api.LoadPause(object)
	if err != nil || pause == nil {
		return nil, err
	}
	exact := &api.Pause{}
	decoder := json.NewDecoder(strings.NewReader(object.GetAnnotations()[api.OwnerPausedAnnotation]))
	decoder.UseNumber()
	if err := decoder.Decode(exact); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s: %w", api.OwnerPausedAnnotation, nameFor(object), err)
	}
	for i := range exact.Made {
		if err := understood(&exact.Made[i]); err != nil {
			return nil, fmt.Errorf("annotation %s of %s: made[%d]: %w; put back by hand what it says, and remove the annotation",
				api.OwnerPausedAnnotation, nameFor(object), i, err)
		}
	}
	return exact, nil
}

// understood reads the record's numbers, and refuses one that this package has not written.
func understood(m *api.Made) error {
	if m.Value == nil {
		return fmt.Errorf("the %s %s has no value", m.In, m.Key)
	}
	for _, value := range []*any{&m.Value, &m.Was} {
		if err := numbers.ConvertInterfaceNumbers(value, 0); err != nil {
			return err
		}
		if _, isText := (*value).(string); !isText && *value != nil && Place(m.In) != Field {
			return fmt.Errorf("the value of the %s %s is %v, not a text", m.In, m.Key, *value)
		}
	}
	switch Place(m.In) {
	case Annotation, Label:
		return nil
	case Field:
		if steps := stepsOf(m.Key); steps == nil || strings.Contains(m.Key, "["+each+"]") {
			return fmt.Errorf("%q is not the path of one field below spec", m.Key)
		}
		return nil
	}
	return fmt.Errorf("there is no place %q", m.In)
}
