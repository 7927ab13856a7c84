// Package deadletter is the Broker's dead-letter sink: it makes an event that no retry could deliver visible on the
// object that it was about.
//
//	in    any event that a Trigger gave up on, with Knative's extensions knativeerrorcode and knativeerrordata
//	get   the StatefulSet
//	do    create a Kubernetes Event
//	out   nothing
//	never sends the event again: what was missed is found by the next tick
package deadletter

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
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

// Handle is safe to repeat: the same failure of the same step is one Kubernetes Event. An event that names no
// StatefulSet is logged, and accepted: nobody could do more with it.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	message := Describe(e)
	f.log.Error("event was given up", "id", e.ID(), "type", e.Type(), "subject", e.Subject(), "why", message)
	ref, err := events.SetOf(e)
	if err != nil {
		return nil, nil //nolint:nilerr // a dead letter that fails would be lost
	}
	_, err = f.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		set := &appsv1.StatefulSet{}
		found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
		if err != nil || !found {
			return plan.Noop(api.DeadLettered), err
		}
		note := plan.Note{Warning: true, Reason: api.DeadLettered, Message: message, UID: set.UID, Operation: ref.Operation}
		return plan.Do(api.DeadLettered, plan.Record(set.Namespace, set.Name, note)), nil
	})
	return nil, err
}

// Describe says in a sentence which event was given up, where, and why. The answer of the subscriber comes from
// Knative's extension, base64 over at most 1,024 characters (knative.dev/eventing pkg/kncloudevents); it is cut to one
// line.
func Describe(e event.Event) string {
	extension := func(name, otherwise string) string {
		if value, ok := e.Extensions()[name]; ok {
			return fmt.Sprint(value)
		}
		return otherwise
	}
	detail := ""
	if raw, err := base64.StdEncoding.DecodeString(extension("knativeerrordata", "")); err == nil {
		detail, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
	}
	message := fmt.Sprintf("event %s could not be delivered to %s", e.Type(), extension("knativeerrordest", "its subscriber"))
	if code := extension("knativeerrorcode", ""); code != "" {
		message += ": HTTP " + code
	}
	if detail != "" {
		message += ": " + detail
	}
	return message + "; the next tick looks at the set again, or annotate it with " + api.RetryAnnotation
}
