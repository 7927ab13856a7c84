// Package pauseowner keeps the operator of a StatefulSet from undoing an operation. Before the set is stopped, it pauses the custom
// resource that controls the set, or makes the operator stop the set. It resumes the resource as soon as the set has its replicas back, at
// the latest when the operation is over.
//
//	in    resize.detected, sleep.decided, wake.decided, scaled, restore.completed, operation.failed; StatefulSets with a
//	      planned operation or a refused sleep, with a copy of the record of a pause, or that lost their label; records of paused
//	      owners whose operation is over; the tick
//	get   the StatefulSet, its owner, other sets of the owner, the Namespace; list ControllerRevisions, HorizontalPodAutoscalers
//	do    patch the StatefulSet: status, sleep, remove a copy of the record of a pause; create and delete the record of a paused owner, and
//	      write into it since when the owner disagrees; patch the owner: pause it, restore its previous settings, write the set's size
//	out   owner.paused, owner.resumed
//	never pauses a resource, or writes a size into it, if its namespace does not allow that; never starts an operation that an owner would
//	undo; never changes a pause by a user or another process; never leaves an owner paused without a record of it
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

// Function is the CloudEvent function pause-owner.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.PauseOwner, log), settings: settings, registry: registry, log: log}
}

// Handle is safe to repeat, to reorder and to run twice at once. If the API server permanently rejects a write to the owner, the
// operation is given up, and not only the event. If it rejects a write of the list of turns, no limit applies, as without the right to
// read it: owners must be resumed, and resizes must end, nevertheless.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Failures = failures
		if turns := failures.OfKind(plan.ConfigMaps).Err; fault.IsPermanent(turns) {
			f.log.WarnContext(ctx, "cannot write the list of turns, so movers have no limit", "error", turns.Error())
			in.Turns = nil
		}
		if rejected := failures.Rejected(); rejected.Err != nil && rejected.Action.Resource != plan.ConfigMaps {
			in.Rejected, in.NotForeseen = rejected.Err, f.acceptsDryRun(ctx, in)
		}
		decided := Decide(in)
		if problems := in.problems(); problems != nil && decided.Kind != plan.KindDo {
			return plan.Plan{}, fault.Permanent(problems) // the user sees it as a dead letter on the set
		}
		return decided, nil
	})
}
