// Package deadletter is the Broker's dead-letter sink: it makes an event that no retry could deliver visible on the
// StatefulSet that it was about, with what is needed to send it again.
//
//	in    any event that a Trigger gave up on, with Knative's extensions knativeerrordest, -code and -data
//	get   the StatefulSet
//	do    list the event in an annotation of the StatefulSet; create a Kubernetes Event
//	out   nothing
//	never sends the event again: what was missed is found by the next tick, or sent again by a person;
//	never writes about a failure that is listed already, or its write would fail the next event, and so on
package deadletter

import (
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is dead-letter.
type Function struct {
	client *kube.Client
	apply  *apply.Executor
	log    *slog.Logger
}

// New makes the function.
func New(client *kube.Client, _ api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.DeadLetter, log), log: log}
}

// Handle is safe to repeat and to run twice at once. An event that names no StatefulSet is logged, and accepted: nobody
// could do more with it. When the API server refuses the list for good, the failure is told all the same.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	letter := letterOf(e)
	f.log.Error("event was given up", "id", e.ID(), "type", e.Type(), "subject", e.Subject(), "why", describe(letter))
	ref, err := setOf(e)
	if err != nil {
		return nil, nil //nolint:nilerr // a dead letter that fails would be lost
	}
	letter.Operation = ref.Operation
	rejected := ""
	step := func(ctx context.Context) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Letter, in.Rejected = letter, rejected
		return Decide(in), nil
	}
	_, err = f.apply.Run(ctx, step)
	if fault.IsPermanent(err) {
		rejected = err.Error()
		_, err = f.apply.Run(ctx, step)
	}
	return nil, err
}
