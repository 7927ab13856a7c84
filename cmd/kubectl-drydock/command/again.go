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
)

// again makes the event of a letter. An event of the source carried an object: it is made from the live one.
func (s *session) again(ctx context.Context, l api.Letter, set *appsv1.StatefulSet) (event.Event, error) {
	ref := refOf(set)
	if !events.IsSource(l.Type) {
		return events.Again(l, ref)
	}
	about, err := events.ObjectOfLetter(l)
	if err != nil {
		return event.Event{}, err
	}
	if !about.Watched() || about.Namespace != set.Namespace {
		return event.Event{}, fmt.Errorf("letter %s is about a %s in namespace %s, which no event about StatefulSet %s/%s is",
			l.Key(), printable(about.Kind), about.Namespace, set.Namespace, set.Name)
	}
	object, err := s.object(ctx, about)
	if err != nil {
		return event.Event{}, err
	}
	if object == nil || !belongs(object, set) {
		// The object is gone, so the event has no data. The functions read the live objects.
		return events.NewByHand(events.ObjectChanged, ref, uuid.NewString(), lookers...), nil
	}
	return events.NewSource(events.SourceUpdate, l.Source, uuid.NewString(), object)
}

// belongs reports whether the object is the set, or linked to it. Every user with the right to annotate a set can write letters, and must
// not make another user send events about other objects of the namespace.
func belongs(object *unstructured.Unstructured, set *appsv1.StatefulSet) bool {
	if object.GetKind() == events.KindStatefulSet {
		return object.GetUID() == set.UID
	}
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Namespace == set.Namespace && link.Set.Name == set.Name
}
