package command

import (
	"context"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/text"
)

// resendable returns a new event for a dead letter. An event of the event source carries an object, so it is made from the live object.
func (s *session) resendable(ctx context.Context, l api.UndeliveredEvent, set *appsv1.StatefulSet) (event.Event, error) {
	ref := refOf(set)
	if !events.IsSource(l.Type) {
		return events.Resend(l, ref)
	}
	reference, err := events.ObjectOfLetter(l)
	if err != nil {
		return event.Event{}, err
	}
	if !reference.Watched() || reference.Namespace != set.Namespace {
		return event.Event{}, fmt.Errorf("letter %s is for a %s in namespace %s, which does not belong to StatefulSet %s/%s",
			l.Key(), text.Printable(reference.Kind), reference.Namespace, set.Namespace, set.Name)
	}
	object, err := s.object(ctx, reference)
	if err != nil {
		return event.Event{}, err
	}
	if object == nil || !belongsTo(object, set) {
		// Without the object the event has no data. The functions read the live objects anyway.
		return events.NewFromUser(events.ObjectChanged, ref, uuid.NewString(), wakeable...), nil
	}
	return events.NewSource(events.SourceUpdate, l.Source, uuid.NewString(), object)
}

// belongsTo reports whether the object is the set, or linked to it. Every user who may annotate a set can write letters. A forged letter
// must not make another user send events about other objects of the namespace.
func belongsTo(object *unstructured.Unstructured, set *appsv1.StatefulSet) bool {
	if object.GetKind() == events.KindStatefulSet {
		return object.GetUID() == set.UID
	}
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Namespace == set.Namespace && link.Set.Name == set.Name
}
