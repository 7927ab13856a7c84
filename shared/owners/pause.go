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

// Resource returns the kind's resource as the API server names it: plural, version of the owner reference, group.
func (r Row) Resource(ref metav1.OwnerReference) (plan.Resource, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Version == "" {
		return "", fmt.Errorf("owner %s %s has the invalid API version %q", ref.Kind, ref.Name, ref.APIVersion)
	}
	return plan.CustomResource(r.Plural(ref.Kind), gv), nil
}

// Held reports whether the object is paused or stopped, by Drydock or by another process or user.
func (r Row) Held(by Means, object *unstructured.Unstructured) bool {
	settings, err := r.settingsOn(by, object)
	return err == nil && allSet(settings, object)
}

// allSet reports whether all the settings are made in the object.
func allSet(settings []Setting, object *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(settings, func(s Setting) bool { return !s.isSetOn(object) })
}

// Paused reports whether the operator leaves the object's StatefulSets alone, by Drydock's request or another's.
func (r Row) Paused(object *unstructured.Unstructured) bool { return r.Held(ByPause, object) }

// Hold pauses or stops the object for an operation. It returns no actions if the object is already held, either for this operation or by
// a user or another process, whose setting stays. While one operation pauses the object, no other one can stop it, because a paused
// operator does not obey a stop.
func (r Row) Hold(by Means, resource plan.Resource, object *unstructured.Unstructured, holder api.Holder) ([]plan.Action, error) {
	pause, err := loadPause(object)
	if err != nil {
		return nil, err
	}
	if err := r.checkOtherHolds(by, object, pause); err != nil {
		return nil, err
	}
	settings, err := r.settingsOn(by, object)
	if err != nil || pause == nil && allSet(settings, object) {
		return nil, err
	}
	if by == ByStop && !allSet(settings, object) && r.Paused(object) {
		return nil, fmt.Errorf("%s is paused, so its operator would ignore a stop. End the pause, then ask again", describe(object))
	}
	if pause == nil {
		pause = &api.Pause{Version: api.PauseVersion}
	}
	patch := plan.PatchOf(resource, object)
	for _, s := range settings {
		if s.isSetOn(object) {
			continue
		}
		// A setting that was written before has been edited since, and the edit is what comes back.
		pause.Settings = slices.DeleteFunc(pause.Settings, func(m api.PausedSetting) bool { return string(s.In) == m.In && s.Key == m.Key })
		pause.Settings = append(pause.Settings, api.PausedSetting{In: string(s.In), Key: s.Key, Value: s.Value, Previous: s.valueOn(object),
			Parents: s.missingParents(object)})
		s.write(patch, object, s.Value)
	}
	if pause.Holder(holder.Operation, holder.Set) == nil {
		pause.Holders = append(pause.Holders, holder)
	}
	return patch.Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
}

// checkOtherHolds refuses the means if the object is already held with a setting that the means does not make.
func (r Row) checkOtherHolds(by Means, object *unstructured.Unstructured, pause *api.Pause) error {
	if pause == nil {
		return nil
	}
	for _, m := range pause.Settings {
		if slices.ContainsFunc(r.settings(by), func(s Setting) bool { return s.matches(m) }) {
			continue
		}
		var holders []string
		for _, h := range pause.Holders {
			holders = append(holders, h.Operation+" of StatefulSet "+h.Set)
		}
		return fmt.Errorf("%s is held by the %s %s for operation %s, which excludes a %s. Ask again when that operation has ended",
			describe(object), m.In, m.Key, strings.Join(holders, ", "), by)
	}
	return nil
}

// IsRecorded reports whether the object is the owner that the operation recorded. An owner that was created again from its own manifest, or
// restored from a backup, has another UID, but still has the pause of the operation.
func IsRecorded(object *unstructured.Unstructured, recorded *api.PausedOwner, operation, set string) bool {
	return object.GetUID() == recorded.UID || HolderOf(object, operation, set) != nil
}

// HolderOf returns the operation on the set for which the object is paused or stopped, or nil if it is not.
func HolderOf(object *unstructured.Unstructured, operation, set string) *api.Holder {
	pause, err := api.LoadPause(object)
	if err != nil {
		return nil
	}
	return pause.Holder(operation, set)
}

// Release ends the hold for an operation on the set, by either means. The last operation restores the previous settings. A setting that a
// user or another process has changed since keeps its value. The same patch lets the object say what the templates ask for, so that its
// operator never sees the former size. It returns no actions if the object is not held for the operation.
func Release(resource plan.Resource, object *unstructured.Unstructured, operation, set string, agree ...Difference) (
	[]plan.Action, error) {
	pause, err := loadPause(object)
	if err != nil || pause == nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(pause.Holders), func(h api.Holder) bool { return h.Operation == operation && h.Set == set })
	if len(others) == 0 {
		return restoreSettings(agreement(resource, object, agree), object, pause.Settings), nil
	}
	if len(others) == len(pause.Holders) {
		return nil, nil
	}
	pause.Holders = others
	return agreement(resource, object, agree).Annotate(api.OwnerPausedAnnotation, pause.Encode()).Actions(), nil
}

// ReleaseAll ends the hold for every operation. An operator's stop applies to all of its StatefulSets, so the first set that is needed
// again ends it. It returns no actions if Drydock does not hold the object.
func ReleaseAll(resource plan.Resource, object *unstructured.Unstructured) ([]plan.Action, error) {
	pause, err := loadPause(object)
	if err != nil || pause == nil {
		return nil, err
	}
	return restoreSettings(plan.PatchOf(resource, object), object, pause.Settings), nil
}

// restoreSettings undoes the settings in the patch, which also removes their record. A setting without a previous value is removed, so that
// the API server or the operator fills in the same default as before.
func restoreSettings(patch *plan.Patch, object *unstructured.Unstructured, made []api.PausedSetting) []plan.Action {
	remainder := object.DeepCopy()
	for _, m := range made {
		s := Setting{In: Place(m.In), Key: m.Key}
		switch {
		case !reflect.DeepEqual(s.valueOn(object), m.Value): // changed by a user or another process, or removed with its list item
		case m.Previous == nil:
			s.remove(patch, remainder, m.Parents)
		default:
			s.write(patch, object, m.Previous)
		}
	}
	return patch.Unannotate(api.OwnerPausedAnnotation).Actions()
}

// loadPause reads the record of the settings that Drydock made in the object. Its numbers are int64 or float64, as in the object. With
// the numbers of encoding/json, 3 replicas would not equal 3, and a large number would be restored as another one.
func loadPause(object *unstructured.Unstructured) (*api.Pause, error) {
	pause, err := api.LoadPause(object)
	if err != nil || pause == nil {
		return nil, err
	}
	exact := &api.Pause{}
	decoder := json.NewDecoder(strings.NewReader(object.GetAnnotations()[api.OwnerPausedAnnotation]))
	decoder.UseNumber()
	if err := decoder.Decode(exact); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s: %w", api.OwnerPausedAnnotation, describe(object), err)
	}
	for i := range exact.Settings {
		if err := checkMade(&exact.Settings[i]); err != nil {
			return nil, fmt.Errorf("annotation %s of %s: made[%d]: %w. Restore the settings that it names by hand, then remove the "+
				"annotation",
				api.OwnerPausedAnnotation, describe(object), i, err)
		}
	}
	return exact, nil
}

// checkMade converts the recorded numbers, and refuses a record that this package has not written.
func checkMade(m *api.PausedSetting) error {
	if m.Value == nil {
		return fmt.Errorf("the %s %s has no value", m.In, m.Key)
	}
	for _, value := range []*any{&m.Value, &m.Previous} {
		if err := numbers.ConvertInterfaceNumbers(value, 0); err != nil {
			return err
		}
		if _, isText := (*value).(string); !isText && *value != nil && Place(m.In) != Field {
			return fmt.Errorf("the value of the %s %s is %v and not text", m.In, m.Key, *value)
		}
	}
	switch Place(m.In) {
	case Annotation, Label:
		return nil
	case Field:
		if steps := parsePath(m.Key); steps == nil || slices.ContainsFunc(steps, step.isOpen) {
			return fmt.Errorf("%q is not the path of one field below spec", m.Key)
		}
		return nil
	}
	return fmt.Errorf("%q is no annotation, label or field", m.In)
}
