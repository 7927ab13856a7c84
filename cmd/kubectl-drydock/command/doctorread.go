package command

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/shared/text"
)

// pageSize is how many objects a list returns at once.
const pageSize = 500

// logLimit is how many bytes of a log are read.
const logLimit = 8 << 20

// kindOf returns the resource of an API group.
func kindOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// unread returns the answer for an error of a read.
func unread[T any](err error, right doctor.Right) doctor.Answer[T] {
	if apierrors.IsForbidden(err) {
		return doctor.Answer[T]{Denied: &right}
	}
	return doctor.Answer[T]{Failed: text.Printable(err.Error())}
}

func rightTo(verb string, kind schema.GroupVersionResource, namespace string) doctor.Right {
	return doctor.Right{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace}
}

// listed reads the objects of a kind. It returns none if the API server does not have the kind.
func listed[T any](ctx context.Context, s *session, kind schema.GroupVersionResource, namespace string,
	options metav1.ListOptions,
) doctor.Answer[[]T] {
	var answer doctor.Answer[[]T]
	options.Limit = pageSize
	for {
		page, err := s.objects.Resource(kind).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return answer
		}
		if err != nil {
			return unread[[]T](err, rightTo("list", kind, namespace))
		}
		for i := range page.Items {
			object, err := decoded[T](&page.Items[i])
			if err != nil {
				return unread[[]T](err, doctor.Right{})
			}
			answer.Value = append(answer.Value, *object)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return answer
		}
	}
}

// one reads one object. It returns nil if the object does not exist.
func one[T any](ctx context.Context, s *session, kind schema.GroupVersionResource, namespace, name string) doctor.Answer[*T] {
	found, err := s.objects.Resource(kind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return doctor.Answer[*T]{}
	case err != nil:
		return unread[*T](err, rightTo("get", kind, namespace))
	}
	object, err := decoded[T](found)
	if err != nil {
		return unread[*T](err, doctor.Right{})
	}
	return doctor.Answer[*T]{Value: object}
}

func decoded[T any](object *unstructured.Unstructured) (*T, error) {
	into := new(T)
	return into, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// names reads the names of the objects of a kind.
func names(ctx context.Context, s *session, kind schema.GroupVersionResource, namespace string) doctor.Answer[[]string] {
	found := listed[metav1.PartialObjectMetadata](ctx, s, kind, namespace, metav1.ListOptions{})
	return doctor.Convert(found, func(all []metav1.PartialObjectMetadata) []string {
		var names []string
		for i := range all {
			names = append(names, all[i].Name)
		}
		return names
	})
}

// offers reports whether the API server offers the resource in the API version.
func (s *session) offers(ctx context.Context, version, resource string) doctor.Answer[bool] {
	body, found, err := s.raw.get(ctx, "/apis/"+version)
	var list metav1.APIResourceList
	if err == nil && found {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return unread[bool](err, doctor.Right{Verb: "get", Resource: "the API version " + version})
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return doctor.Answer[bool]{Value: true}
		}
	}
	return doctor.Answer[bool]{}
}

// log reads what the container logged in the latest time. It returns nil if the pod has ended or the container has not started.
func (s *session) log(ctx context.Context, namespace, pod, container string, latest time.Duration) doctor.Answer[*string] {
	body, err := s.raw.rest.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "log").Param("container", container).
		Param("sinceSeconds", strconv.Itoa(int(latest.Seconds()))).Param("limitBytes", strconv.Itoa(logLimit)).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return doctor.Answer[*string]{}
	case err != nil:
		return unread[*string](err, doctor.Right{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace})
	}
	lines := string(body)
	return doctor.Answer[*string]{Value: &lines}
}
