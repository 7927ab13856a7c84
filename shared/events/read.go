package events

import (
	"fmt"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
)

// ObjectOf returns the object of an event. It checks only that the names are well-formed: the content of an event is hostile input.
func ObjectOf(e cloudevents.Event) (Object, error) {
	kind, _ := e.Extensions()[extKind].(string)
	namespace, _ := e.Extensions()[extNamespace].(string)
	name, _ := e.Extensions()[extName].(string)
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Object{}, fmt.Errorf("event %q: extension namespace %q: %s", e.ID(), namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return Object{}, fmt.Errorf("event %q: extension name %q: %s", e.ID(), name, problems[0])
	}
	return Object{Kind: kind, Namespace: namespace, Name: name}, nil
}

// SetOf returns the StatefulSet of one of Drydock's events.
func SetOf(e cloudevents.Event) (Ref, error) {
	if kind, _ := e.Extensions()[extKind].(string); kind != KindStatefulSet {
		return Ref{}, fmt.Errorf("event %q of type %s names kind %q, not a StatefulSet", e.ID(), e.Type(), kind)
	}
	object, err := ObjectOf(e)
	if err != nil {
		return Ref{}, err
	}
	operation, _ := e.Extensions()[extOperation].(string)
	return Ref{Namespace: object.Namespace, Name: object.Name, Operation: operation}, nil
}

// WithSet returns a copy of the event with the StatefulSet as its object.
func WithSet(e cloudevents.Event, ref Ref) cloudevents.Event {
	e = e.Clone()
	e.SetSubject(ref.Object().Path())
	e.SetExtension(extKind, KindStatefulSet)
	e.SetExtension(extNamespace, ref.Namespace)
	e.SetExtension(extName, ref.Name)
	return e
}

// GroupOf returns the group of an event that names no set. It returns false for all other events.
func GroupOf(e cloudevents.Event) (namespace, group string, ok bool) {
	namespace, _ = e.Extensions()[extNamespace].(string)
	group, _ = e.Extensions()[extGroup].(string)
	_, named := e.Extensions()[extName]
	ok = !named && group != "" && len(validation.IsValidLabelValue(group)) == 0 && len(validation.IsDNS1123Label(namespace)) == 0
	return namespace, group, ok
}

// Concerns returns the functions that an ObjectChanged is for.
func Concerns(e cloudevents.Event) []api.Function {
	text, _ := e.Extensions()[extConcerns].(string)
	var functions []api.Function
	for _, name := range strings.Fields(text) {
		functions = append(functions, api.Function(name))
	}
	return functions
}

// Purpose returns the kind of operation in an event, or "".
func Purpose(e cloudevents.Event) string {
	purpose, _ := e.Extensions()[extPurpose].(string)
	return purpose
}

// Fresh is the greatest age of an event that still describes the present.
const Fresh = time.Minute

// IsOld reports whether the event is older than Fresh. An event without a time counts as sent now.
func IsOld(e cloudevents.Event, now time.Time) bool {
	return !e.Time().IsZero() && now.Sub(e.Time()) > Fresh
}
