// Package deadletter is the Broker's dead-letter sink. It shows an event that no retry could deliver on the StatefulSet concerned, with all
// data that is needed to send it again.
//
//	in    any event that a Trigger gave up, with Knative's extensions knativeerrordest, -code and -data
//	get   the StatefulSet
//	do    list the event in an annotation of the StatefulSet; create a Kubernetes Event
//	out   nothing
//	never sends the event again: the next tick makes up for it, or the user sends it again;
//	never writes about a failure that is already listed: the write causes another event, which may fail, too, without an end
package deadletter

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is the function dead-letter.
type Function struct {
	client *kube.Client
	apply  *apply.Executor
	log    *slog.Logger
}

// New returns the function.
func New(client *kube.Client, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.DeadLetter, log), log: log}
}

// Handle is safe to repeat and to run twice at once. It logs and accepts an event that names no StatefulSet, because a retry could do no
// more. If the API server rejects the list for good, Handle still reports the failure in a Kubernetes Event.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	letter := letterOf(e)
	f.log.Error("event was given up", "id", e.ID(), "type", e.Type(), "subject", e.Subject(), "why", describe(letter))
	ref, err := setOf(e)
	if err != nil {
		return nil, nil // a dead letter that fails would be lost
	}
	letter.Operation = ref.Operation
	rejected := ""
	step := func(ctx context.Context) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Letter, in.SetUID, in.Rejected = letter, ref.UID, rejected
		return Decide(in), nil
	}
	_, err = f.apply.Run(ctx, step)
	if fault.IsPermanent(err) {
		rejected = err.Error()
		_, err = f.apply.Run(ctx, step)
	}
	return nil, err
}

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
