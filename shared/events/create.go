package events

import (
	"fmt"
	"slices"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// NewChanged returns the event that wakes the functions concerned by a StatefulSet. sift sends it. Its id derives from the observed state,
// so that the same change yields the same event.
func NewChanged(ref Ref, seen string, concerns ...api.Function) cloudevents.Event {
	words := join(concerns)
	e := newEvent(api.Sift, ObjectChanged, ref, seen+"/"+strings.ReplaceAll(words, " ", "+"))
	setChange(&e, ref, words)
	return e
}

// NewStep returns the event that announces a step of an operation. A function sends it. The id derives from operation and step, so that
// duplicates can be identified.
func NewStep(from api.Function, eventType string, ref Ref) cloudevents.Event {
	return newEvent(from, eventType, ref, ref.Operation+"/"+strings.TrimPrefix(eventType, "dev.drydock."))
}

// changed is the data of ObjectChanged.
type changed struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

func setChange(e *cloudevents.Event, ref Ref, concerns string) {
	e.SetExtension(extConcerns, concerns)
	address(e)
	_ = e.SetData(cloudevents.ApplicationJSON, changed{UID: ref.UID, ResourceVersion: ref.ResourceVersion})
}

func join(functions []api.Function) string {
	names := make([]string, len(functions))
	for i, f := range functions {
		names[i] = string(f)
	}
	return strings.Join(names, " ")
}

func newEvent(from api.Function, eventType string, ref Ref, id string) cloudevents.Event {
	e := cloudevents.New()
	e.SetType(eventType)
	e.SetSource("drydock.dev/" + string(from))
	e.SetID(id)
	e.SetSubject(ref.Object().Path())
	e.SetExtension(extKind, KindStatefulSet)
	e.SetExtension(extNamespace, ref.Namespace)
	e.SetExtension(extName, ref.Name)
	e.SetExtension(extPartitionKey, partitionKey(ref))
	if ref.Operation != "" {
		e.SetExtension(extOperation, ref.Operation)
	}
	if ref.Purpose != "" {
		e.SetExtension(extPurpose, ref.Purpose)
	}
	address(&e)
	return e
}

// partitionKey returns the UID of the set, or its name without a known UID. By this key a broker can keep the events of one set in order.
func partitionKey(ref Ref) string {
	if ref.UID != "" {
		return string(ref.UID)
	}
	return ref.String()
}

// fromUser is the source of events that users send.
const fromUser api.Function = "kubectl"

// NewFromUser returns one of Drydock's events as a user sends it. Only ObjectChanged has concerns.
func NewFromUser(eventType string, ref Ref, id string, concerns ...api.Function) cloudevents.Event {
	e := newEvent(fromUser, eventType, ref, id)
	if eventType == ObjectChanged {
		setChange(&e, ref, join(concerns))
	}
	return e
}

// NewForGroup returns the event that a user sends for a whole group. Its type is Activity, Wake or Sleep.
func NewForGroup(eventType, namespace, group, id string) (cloudevents.Event, error) {
	e := cloudevents.New()
	e.SetType(eventType)
	e.SetSource("drydock.dev/" + string(fromUser))
	e.SetID(id)
	e.SetExtension(extNamespace, namespace)
	e.SetExtension(extGroup, group)
	e.SetExtension(extPartitionKey, namespace+"/"+group)
	address(&e)
	if _, _, ok := GroupOf(e); !ok || !slices.Contains([]string{Activity, Wake, Sleep}, eventType) {
		return e, fmt.Errorf("event %s for group %q in namespace %q is invalid; a group is a label's value, and the type is %s, %s or %s",
			eventType, group, namespace, Activity, Wake, Sleep)
	}
	return e, nil
}

// NewSource returns the event that ApiServerSource sends for a change of the object.
func NewSource(eventType, source, id string, object *unstructured.Unstructured) (cloudevents.Event, error) {
	e := cloudevents.New()
	e.SetType(eventType)
	e.SetSource(source)
	e.SetID(id)
	e.SetSubject(Object{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}.Path())
	e.SetExtension(extKind, object.GetKind())
	e.SetExtension("apiversion", object.GetAPIVersion())
	e.SetExtension(extName, object.GetName())
	e.SetExtension(extNamespace, object.GetNamespace())
	if err := e.SetData(cloudevents.ApplicationJSON, object); err != nil {
		return e, fmt.Errorf("writing %s %s/%s into an event: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return e, nil
}

// Resend returns the event of the letter, with its first id and source. A letter can be forged by any user who may annotate a StatefulSet.
// Therefore the event always has the given set, not the one in the letter, and it is never an order: that would be carried out with the
// rights of the user who sends it again.
func Resend(letter api.UndeliveredEvent, set Ref) (cloudevents.Event, error) {
	if !IsOwn(letter.Type) {
		return cloudevents.Event{}, fmt.Errorf("letter %s has type %q, which is not a type of Drydock", letter.Key(), letter.Type)
	}
	if IsOrder(letter.Type) {
		return cloudevents.Event{}, fmt.Errorf("letter %s is an order (%s), which is not sent again; give the order yourself if you want it, "+
			"and remove the letter from annotation %s", letter.Key(), letter.Type, api.DeadLettersAnnotation)
	}
	set.Operation = letter.Operation
	e := newEvent("", letter.Type, set, letter.ID)
	e.SetSource(letter.Source)
	if concerns, named := letter.Extensions[extConcerns]; named {
		e.SetExtension(extConcerns, concerns)
		address(&e)
	}
	if len(letter.Data) > 0 {
		_ = e.SetData(cloudevents.ApplicationJSON, letter.Data)
	}
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("letter %s: %w", letter.Key(), err)
	}
	return e, nil
}

// OwnExtensions returns Drydock's extensions of the event, without the operation.
func OwnExtensions(e cloudevents.Event) map[string]string {
	own := map[string]string{}
	for _, name := range []string{extConcerns, extKind, extName, extNamespace, extPartitionKey} {
		if value, ok := e.Extensions()[name].(string); ok {
			own[name] = value
		}
	}
	return own
}

// ObjectOfLetter returns the object of the letter's event.
func ObjectOfLetter(letter api.UndeliveredEvent) (Object, error) {
	e := cloudevents.New()
	e.SetID(letter.ID)
	for _, name := range []string{extKind, extNamespace, extName} {
		e.SetExtension(name, letter.Extensions[name])
	}
	return ObjectOf(e)
}
