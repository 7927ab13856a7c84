package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

type fieldManager = *managedfields.FieldManager

// manage returns the object with its managedFields after a write that replaces the object.
func (s *Server) manage(by Client, k kind, before, after *Object) (*Object, error) {
	m, err := s.managerOf(k)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = empty(k.gvk())
	}
	managed, err := m.Update(before, after, by.Manager)
	if err != nil {
		return nil, fmt.Errorf("%s %s: updating managedFields: %w", k.name, after.GetName(), err)
	}
	return managed.(*Object), nil
}

func (s *Server) managerOf(k kind) (fieldManager, error) {
	if m := s.managers[k.gvk()]; m != nil {
		return m, nil
	}
	m, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), unchanged{}, unchanged{}, unchanged{}, k.gvk(),
		k.gvk().GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	s.managers[k.gvk()] = m
	return m, nil
}

func empty(k schema.GroupVersionKind) *Object {
	o := &Object{Object: map[string]any{}}
	o.SetGroupVersionKind(k)
	return o
}

// unchanged converts and completes nothing: each kind has one version, and its objects are complete.
type unchanged struct{}

func (unchanged) Convert(in, out, _ any) error {
	*out.(*Object) = *in.(*Object)
	return nil
}

func (unchanged) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (unchanged) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errModified
}

func (unchanged) Default(runtime.Object) {}

func (unchanged) New(k schema.GroupVersionKind) (runtime.Object, error) { return empty(k), nil }
