package deadletter

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
)

// Input is everything that Decide considers.
type Input struct {
	Now time.Time
	Set *appsv1.StatefulSet // nil if it does not exist
	// Letter is the undelivered event, without a time.
	Letter api.UndeliveredEvent
	// SetUID is the UID of the set in the data of a source event.
	SetUID types.UID
	// Rejected is why the API server rejected the list for good. It is empty if it did not.
	Rejected string
}

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in, set := Input{Now: time.Now()}, &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if found {
		in.Set = set
	}
	return in, err
}
