// Package backup copies the claims of each member to new volumes. First passes run beside the member's pod until they converge. The final
// pass runs after restore has stopped the member. Every copy is verified.
//
//	in    owner.paused, member.changed; StatefulSets, Jobs, Pods of an operation; the tick
//	get   StatefulSet, claims, volumes, pods with the movers' reports, Jobs
//	do    create journal, temporary claims and Jobs; patch claims and volumes (link, Retain), and the movers' pods (lease, signal);
//	      delete Jobs
//	out   backup.completed
//	never writes to the data of a source: it is mounted read-only; its claim and volume only get a link and the reclaim policy Retain
package backup

import (
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is the function backup.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.Backup, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run twice at once. If the API server rejects a write for good, for example because of a
// quota, the operation is reverted: a retry would be rejected, too.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in.Rejected = fault.Text(failures.Rejected().Err)
		return Decide(in), nil
	})
}
