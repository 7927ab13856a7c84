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

// HookRequest is the data of ScaleHookRequested. The answer repeats it.
type HookRequest struct {
	api.HookFacts
	// Key is a random text. An answer with the same key comes from a receiver of the request.
	Key string `json:"key"`
	// Message is the error. Only an answer of the type ScaleHookFailed has it.
	Message string `json:"message,omitempty"`
}

// HookAnswer is the answer of a user's function to a request for a hook.
type HookAnswer struct {
	Operation, Hook, Key string
	Failed               bool
	Message              string
}

// HookAnswerOf returns the answer in the event, or nil for another type. Every client of the Broker can send an answer, so the caller must
// compare its key with the keys of the requests.
func HookAnswerOf(e cloudevents.Event) (*HookAnswer, error) {
	if e.Type() != ScaleHookCompleted && e.Type() != ScaleHookFailed {
		return nil, nil
	}
	answer := HookRequest{}
	if err := e.DataAs(&answer); err != nil {
		return nil, fmt.Errorf("event %q of type %s: %w; send the data of the request back", e.ID(), e.Type(), err)
	}
	return &HookAnswer{
		Operation: answer.Operation, Hook: answer.Hook, Key: answer.Key, Failed: e.Type() == ScaleHookFailed, Message: answer.Message,
	}, nil
}
