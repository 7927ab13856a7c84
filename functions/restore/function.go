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
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
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

// Handle is safe to repeat, to reorder and to run twice at once. A write that the API server refuses for good is told,
// and tried again with the next event. One that it fails to carry out counts once the deadline is over.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var since time.Time // of the present wait
	return f.apply.HandleFailing(ctx, e, func(ctx context.Context, ref events.Ref, failure error) (plan.Plan, error) {
		observed, err := f.client.Observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in := Input{Observed: observed, Namespace: ref.Namespace, Settings: f.settings}
		in.learn(failure)
		if !since.IsZero() {
			in.Waited = observed.Now.Sub(since)
		}
		p := Decide(in)
		if p.Kind != plan.KindWait {
			since = time.Time{}
		} else if since.IsZero() {
			since = observed.Now
		}
		return p, nil
	})
}

// learn sorts what the API server has said to a write of this event.
func (in *Input) learn(failure error) {
	switch {
	case failure == nil:
	case !fault.IsPermanent(failure):
		in.Failing = fault.Words(failure)
	case fault.IsTrial(failure):
		in.Refused = fault.Words(failure)
	default:
		in.Rejected = fault.Text(failure)
	}
}
