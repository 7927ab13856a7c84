package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// session is a command's access to the cluster, and to the StatefulSet that the command names.
type session struct {
	client    *kube.Client
	raw       *raw
	objects   dynamic.Interface
	apply     *apply.Executor
	namespace string
	name      string
	// refresh is the time between two looks at the objects around a followed set, for example its pods. The set itself is watched.
	refresh time.Duration
	// unread is the error of the right that is missing to observe the followed set with its objects. It is "" if all were read.
	unread string
	// rights caches the API server's answers about the user's rights.
	rights map[string]bool
}

// live reads the StatefulSet. It returns an error if the set does not exist.
func (s *session) live(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := s.client.Get(ctx, plan.StatefulSets, s.namespace, s.name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("there is no StatefulSet %s in namespace %s. Name another namespace with -n", s.name, s.namespace)
	}
	return set, nil
}

// managed reads the StatefulSet for commands that need the functions. It also returns an error if the set has not opted in.
func (s *session) managed(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := s.live(ctx)
	switch {
	case err != nil:
		return nil, err
	case !statefulset.Managed(set):
		return nil, s.notOptedIn(ctx, set)
	}
	return set, nil
}

// write applies the patch that decide returns for the live set. After a conflict it reads the set and decides again.
func (s *session) write(ctx context.Context, decide func(*appsv1.StatefulSet) (*plan.Patch, error)) error {
	_, err := s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		set, err := s.managed(ctx)
		if err != nil {
			return plan.Plan{}, err
		}
		patch, err := decide(set)
		if err != nil {
			return plan.Plan{}, err
		}
		return plan.Do(api.UpToDate, patch.Actions()...).Then("written", ""), nil
	})
	return err
}

// unchanged returns an error if the live set is another than the user has seen, or if something that decides about a resize has changed
// since. A question can stay open for a long time.
func unchanged(seen, live *appsv1.StatefulSet) error {
	before, after := operation.Of(seen).Resize, operation.Of(live).Resize
	same := before == nil && after == nil || before != nil && after != nil && before.Operation == after.Operation
	if seen.UID == live.UID && seen.Generation == live.Generation && same && operation.RefusalDigest(seen) == operation.RefusalDigest(live) {
		return nil
	}
	return fmt.Errorf("StatefulSet %s/%s has changed since it was shown to you. Nothing was requested. Run the command again", live.Namespace,
		live.Name)
}

// refOf returns the reference to the set for an event, with the operation of its record.
func refOf(set *appsv1.StatefulSet) events.Ref {
	ref := events.Ref{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion}
	if status, err := statusOf(set); err == nil && status != nil {
		ref.Operation = status.Operation
	}
	return ref
}

func statusOf(set *appsv1.StatefulSet) (*api.Resize, error) {
	return api.LoadResize(set)
}

// raw reads paths of the API server without typed objects. It serves kinds that package kube does not know, and objects with every field.
type raw struct {
	rest *rest.RESTClient
	host string
}

func newRaw(config *rest.Config) (*raw, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // as in package kube
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &raw{rest: client, host: config.Host}, nil
}

// get returns the object at the path, or false if there is none.
func (r *raw) get(ctx context.Context, path string) ([]byte, bool, error) {
	body, err := r.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return body, err == nil, err
}

// post sends the object and decodes the response into answer.
func (r *raw) post(ctx context.Context, path string, object, answer any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing to %s: %w", path, err)
	}
	body, err = r.rest.Post().AbsPath(path).SetHeader("Accept", "application/json").SetHeader("Content-Type",
		"application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// url returns the URL of the path. client returns a client with credentials for this API server.
func (r *raw) url(path string) string { return r.rest.Get().AbsPath(path).URL().String() }

func (r *raw) client() *http.Client { return r.rest.Client }

// registry returns the rows of owners. If the rows of the installation cannot be read, it returns those that Drydock comes with.
func (s *session) registry(ctx context.Context) owners.Registry {
	var settings api.Settings
	if _, err := s.measuring().readSettings(ctx, defaultSettings, &settings); err != nil {
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
