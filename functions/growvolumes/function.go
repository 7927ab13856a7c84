// Package growvolumes has the volumes of a StatefulSet grow when they are nearly full, where the set or its namespace asks for that.
//
//	in    object.changed, which the sweep of sift sends for sets that ask to grow
//	get   the StatefulSet, its claims, the ConfigMap drydock-grow; how full the volumes are, of Prometheus or the kubelets of its members' nodes;
//	      where one is nearly full, StorageClasses
//	do    patch StatefulSet: the request of a resize, its retry, and what it remembers; create a token of the account volume-stats
//	out   nothing: detect-resize sees the request
//	never requests a resize that stops a member, and never uses figures that are unknown, old or contradictory
package growvolumes

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

// Function is grow-volumes.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.GrowVolumes, log), log: log}
}

// Handle is safe to repeat, to reorder and to run twice at once: it reads the live set for every event, and measures its volumes once.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var measured *measurement
	return f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, &measured)
		if err != nil {
			return plan.Plan{}, err
		}
		decided, warnings := decide(in)
		f.apply.Growth(ctx, ref, stuck(warnings))
		return decided, nil
	})
}
