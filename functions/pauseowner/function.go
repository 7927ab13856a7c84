// Package pauseowner asks the custom resource that controls a StatefulSet for its consent before the set is stopped.
//
//	in    resize.detected, restore.completed; StatefulSets with a planned operation; the tick
//	get   the StatefulSet
//	do    patch the StatefulSet: status
//	out   owner.paused
//	never lets an operation go on whose owner would undo it: a set without owner, or with owner-policy "ignore", goes on
//	at once; any other is rolled back
package pauseowner

import (
	"context"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Function is pause-owner.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.PauseOwner, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run twice at once.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		in := Input{Observed: &sts.Observed{Now: time.Now(), Name: ref.Name}, Settings: f.settings}
		set := &appsv1.StatefulSet{}
		found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
		if err != nil {
			return plan.Plan{}, err
		}
		if found {
			in.Set = set
		}
		return Decide(in), nil
	})
}
