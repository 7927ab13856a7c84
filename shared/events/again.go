package events

import (
	"fmt"
	"slices"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
)

// byHand is what people's own events name as their source.
const byHand api.Function = "kubectl"

// NewByHand makes an event of ours as a person sends it. Only ObjectChanged has concerns.
func NewByHand(eventType string, ref Ref, id string, concerns ...api.Function) cloudevents.Event {
	e := newEvent(byHand, eventType, ref, id)
	if eventType == ObjectChanged {
		tellChange(&e, ref, join(concerns))
	}
	return e
}

// NewForGroup makes the event with which a person tells of a whole group: one of Activity, Wake, Sleep.
func NewForGroup(eventType, namespace, group, id string) (cloudevents.Event, error) {
	e := cloudevents.New()
	e.SetType(eventType)
	e.SetSource("drydock.dev/" + string(byHand))
	e.SetID(id)
	e.SetExtension(extNamespace, namespace)
	e.SetExtension(extGroup, group)
	e.SetExtension(extPartitionKey, namespace+"/"+group)
	if _, _, ok := GroupOf(e); !ok || !slices.Contains([]string{Activity, Wake, Sleep}, eventType) {
		return e, fmt.Errorf("event %s about group %q in namespace %q: a group is a label's value, and %s, %s and %s are about groups",
			eventType, group, namespace, Activity, Wake, Sleep)
	}
	return e, nil
}

// NewSource makes the event that ApiServerSource sends of a change of the object.
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

// Again makes the event of ours that the letter is about, as it was first sent. Whoever may annotate a StatefulSet can
// write letters, so the event is about the set given, whatever the letter says.
func Again(letter api.Letter, set Ref) (cloudevents.Event, error) {
	if !IsOwn(letter.Type) {
		return cloudevents.Event{}, fmt.Errorf("letter %s is of type %q, which is none of Drydock's own", letter.Key(), letter.Type)
	}
	set.Operation = letter.Operation
	e := newEvent("", letter.Type, set, letter.ID)
	e.SetSource(letter.Source)
	if concerns, named := letter.Extensions[extConcerns]; named {
		e.SetExtension(extConcerns, concerns)
	}
	if len(letter.Data) > 0 {
		_ = e.SetData(cloudevents.ApplicationJSON, letter.Data)
	}
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("letter %s: %w", letter.Key(), err)
	}
	return e, nil
}

// OwnExtensions are the extensions of ours that the event has, but for its operation.
func OwnExtensions(e cloudevents.Event) map[string]string {
	own := map[string]string{}
	for _, name := range []string{extConcerns, extKind, extName, extNamespace, extPartitionKey} {
		if value, ok := e.Extensions()[name].(string); ok {
			own[name] = value
		}
	}
	return own
}

// ObjectOfLetter reads which object a letter is about.
func ObjectOfLetter(letter api.Letter) (Object, error) {
	e := cloudevents.New()
	e.SetID(letter.ID)
	for _, name := range []string{extKind, extNamespace, extName} {
		e.SetExtension(name, letter.Extensions[name])
	}
	return ObjectOf(e)
}
