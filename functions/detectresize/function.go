// Package detectresize compares a StatefulSet's request with its claims, and starts a resize if there is no obstacle.
//
//	in    StatefulSet changes, resize.requested, retry; the tick
//	get   StatefulSet, claims, volumes, pods; before a resize also classes, quotas, limit ranges, the namespace
//	do    patch the StatefulSet: its record; patch claims: only their requests; evict a pod whose file system
//	      grows only when it is mounted
//	out   resize.detected, restore.completed, operation.failed
//	never touches a volume or a replica count; lowers a claim's request only if its volume could not grow
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

// Function is the function detect-resize.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.DetectResize, log), settings: settings, registry: registry}
}

// Handle is safe to repeat, to reorder and to run twice at once. It reads the live objects for every event. A retry event has the same
// effect as a retry annotation.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		var retry *resize.Retry
		if e.Type() == events.Retry {
			retry = &resize.Retry{Operation: ref.Operation}
		}
		in, err := f.observe(ctx, ref, retry)
		if err != nil {
			return plan.Plan{}, err
		}
		if rejected := failures.Rejected().Err; fault.IsBudget(rejected) {
			in.Budget = fault.Words(rejected)
		} else {
			in.Rejected = fault.Text(rejected)
		}
		return Decide(in), nil
	})
}
