// Package pauseowner pauses the custom resource that controls a StatefulSet before the set is stopped, or has its operator
// stop the set, and resumes it as soon as the set has its replicas back, at the latest when the operation is over.
//
//	in    resize.detected, sleep.decided, wake.decided, scaled, restore.completed, operation.failed; StatefulSets with a
//	planned operation; records of paused owners whose operation is over; the tick
//	get   the StatefulSet, its owner, other sets of the owner, the Namespace; list ControllerRevisions, HorizontalPodAutoscalers
//	do    patch the StatefulSet: status, sleep; create and delete the record of a paused owner; patch the owner: the settings that
//	pause it, what was there before
//	out   owner.paused, owner.resumed
//	never pauses a resource that does not allow it; never lets an operation go on whose owner would undo it; never touches a pause that somebody else has made; never leaves
//	an owner paused without a record of it
package pauseowner

import (
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
)

// Function is pause-owner.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.PauseOwner, log), settings: settings, registry: registry}
}

// Handle is safe to repeat, to reorder and to run twice at once. What the API server will never let us do to the owner
// is a reason to give the operation up, and not only the event.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleDenied(ctx, e, func(ctx context.Context, ref events.Ref, denied error) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Denied = denied
		decided := Decide(in)
		if problems := in.problems(); problems != nil && decided.Kind != plan.KindDo {
			return plan.Plan{}, fault.Permanent(problems) // a dead letter on the set tells people
		}
		return decided, nil
	})
}
