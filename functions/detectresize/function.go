// Package detectresize compares what a StatefulSet asks of its claims with what they are, and begins a resize when it
// can be carried through.
//
//	in    StatefulSet changes, resize.requested, retry; the tick
//	get   StatefulSet, claims, volumes, pods; before a resize also classes, quotas, limit ranges, the namespace
//	do    patch the StatefulSet: status, claim retention; patch claims: only what they ask for; delete a pod whose file system
//	      grows only when it is mounted
//	out   resize.detected, restore.completed, operation.failed
//	never touches a volume or a replica count; never has a claim ask for less, but for what it could not get
package detectresize

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
	"drydock.dev/shared/resize"
)

// Function is detect-resize.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.DetectResize, log), settings: settings, registry: registry}
}

// Handle is safe to repeat, to reorder and to run twice at once. Every event makes it look; a retry event is a retry
// annotation that nobody has to write.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleDenied(ctx, e, func(ctx context.Context, ref events.Ref, denied error) (plan.Plan, error) {
		var asked *resize.Retry
		if e.Type() == events.Retry {
			asked = &resize.Retry{Of: ref.Operation}
		}
		in, err := f.observe(ctx, ref, asked)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Rejected = fault.Text(denied)
		return Decide(in), nil
	})
}
