// Package restore moves the members of a set to their new volumes: it stops a member by a hold, puts the verified copies behind the names
// of its claims, and releases it. When an operation is given up, it releases all pods that are held.
//
//	in    backup.completed; StatefulSets, claims, Jobs, Pods of an operation; the tick
//	get   StatefulSet, claims, volumes, pods, Jobs, journals, nodes; asks members by their check
//	do    hold, evict and release pods; replace claims; delete and create the StatefulSet around its pods; patch volumes; create and delete
//	      lock pods; create the Jobs of hooks; delete Jobs, temporary claims, journals
//	out   member.changed, restore.completed, operation.failed
//	never deletes a claim before its copy is verified, both volumes are retained, and no pod can start on it any more;
//	never releases a pod before each of its claims is bound to a whole volume; never writes the set's replicas
package restore

import (
	"context"
	"log/slog"
	"strings"
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

// Handle is safe to repeat, to reorder and to run twice at once. If the API server refuses a write for good, the user is told, and the next
// event tries again. If it fails to carry out a write, the operation is given up only after its deadline.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var since time.Time // of the present wait
	return f.apply.HandleFailing(ctx, e, func(ctx context.Context, ref events.Ref, failure error) (plan.Plan, error) {
		observed, err := f.client.Observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in := Input{Observed: observed, Namespace: ref.Namespace, Settings: f.settings}
		in.learn(failure)
		if err := f.confirm(ctx, &in, failure); err != nil {
			return plan.Plan{}, err
		}
		if !since.IsZero() {
			in.Waited = observed.Now.Sub(since)
		}
		p, ask := decide(in)
		if len(ask) > 0 {
			in.Checks = askMembers(ctx, in.Set, ask, f.settings.ProbeTimeout)
			p, _ = decide(in)
		}
		if p.Kind != plan.KindWait {
			since = time.Time{}
		} else if since.IsZero() {
			since = observed.Now
		}
		return p, nil
	})
}

// confirm looks whether the namespace is being deleted indeed: a webhook that writes to another namespace itself may hand on the refusal of
// that one, and pods are released without their claims because of it.
func (f *Function) confirm(ctx context.Context, in *Input, failure error) error {
	if !in.NamespaceLeaves {
		return nil
	}
	leaves, err := f.client.NamespaceLeaves(ctx, in.Namespace)
	if err == nil && !leaves {
		in.NamespaceLeaves, in.Rejected = false, fault.Text(failure)
	}
	return err
}

// learn stores the API server's error for a write of this event, by its kind.
func (in *Input) learn(failure error) {
	switch {
	case failure == nil:
	case !fault.IsPermanent(failure):
		in.Failing = fault.Words(failure)
	case fault.IsNamespaceLeaving(failure):
		in.NamespaceLeaves = true
	case fault.IsBudget(failure):
		in.Budget = strings.TrimSuffix(fault.Words(failure), ".")
	case fault.IsTrial(failure):
		in.Refused = fault.Words(failure)
	default:
		in.Rejected = fault.Text(failure)
	}
}
