// Package restore puts verified copies behind the names of the claims, starts the set, and cleans up; or gives the set
// back as it was when an operation failed before the switch.
//
//	in    backup.completed; StatefulSets, claims, Jobs, Pods of an operation; the tick
//	get   StatefulSet, claims, volumes, pods, Jobs, journals
//	do    replace claims; delete and create the StatefulSet; patch volumes; scale up; delete Jobs, temporary claims, journals
//	out   restore.completed, operation.failed
//	never deletes a claim before its copy is verified, both volumes are retained, and no pod can start on it any more;
//	never starts a set of which one claim is not whole
package restore

import (
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is restore.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.Restore, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run twice at once.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		observed, err := f.client.Observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		return Decide(Input{Observed: observed, Namespace: ref.Namespace, Settings: f.settings}), nil
	})
}
