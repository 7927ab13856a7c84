package command

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
)

// registry returns the rows of owners. If the rows of the installation cannot be read, it returns those that Drydock comes with.
func (s *session) registry(ctx context.Context) owners.Registry {
	var settings api.Settings
	if _, err := s.readSettings(ctx, defaultSettings, &settings); err != nil {
		return owners.BuiltIn()
	}
	registry, err := owners.LoadRegistry(settings.Owners)
	if err != nil {
		return owners.BuiltIn()
	}
	return registry
}

// optInAdvice says how the set stays opted in, if its operator removes the label from it and the set's controller lacks the label. It is
// empty if the user may not read the controller.
func (s *session) optInAdvice(ctx context.Context, registry owners.Registry, set *appsv1.StatefulSet) string {
	if registry.OptInAdvice(set, nil) == "" {
		return ""
	}
	resource := s.controllerOf(ctx, registry, set)
	if resource == nil {
		return ""
	}
	return registry.OptInAdvice(set, resource)
}

// controllerOf reads the custom resource that controls the set. It returns nil if there is none, or if it cannot be read.
func (s *session) controllerOf(ctx context.Context, registry owners.Registry, set *appsv1.StatefulSet) *unstructured.Unstructured {
	controller := metav1.GetControllerOf(set)
	if controller == nil {
		return nil
	}
	gv, _ := schema.ParseGroupVersion(controller.APIVersion) // an unreadable version is in no row
	row, known := registry.Find(gv.Group, controller.Kind)
	if !known {
		return nil
	}
	kind, err := row.Resource(*controller)
	if err != nil {
		return nil
	}
	object, _, err := s.client.GetCustom(ctx, kind, set.Namespace, controller.Name)
	if err != nil || object == nil || object.GetUID() != controller.UID {
		return nil
	}
	return object
}

// notOptedIn returns the error for a set without the label, with the command that opts it in where that lasts.
func (s *session) notOptedIn(ctx context.Context, set *appsv1.StatefulSet) error {
	return fmt.Errorf("StatefulSet %s/%s has not opted in, so Drydock does not touch it. Opt in with: %s", s.namespace, s.name,
		s.registry(ctx).OptInCommand(set))
}
