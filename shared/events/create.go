package events

import (
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
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
