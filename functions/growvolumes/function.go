// Package growvolumes raises the floors of a StatefulSet's volumes when they are nearly full. The set or its namespace must have rules for
// growth.
//
//	in    object.changed, which the sweep of sift sends for sets with rules for growth
//	get   the StatefulSet, its claims, the ConfigMap drydock-grow; the usage of the volumes from Prometheus or from the kubelets of
//	      the members' nodes; StorageClasses if a volume is nearly full, and the namespace if Drydock is to change a custom resource
//	do    patch StatefulSet: the annotations drydock.dev/grow-to and drydock.dev/growth; create a token of the account volume-stats
//	out   nothing: detect-resize observes the floors
//	never writes the user's request, never lets volumes grow that would stop a member, and never uses figures that are missing,
//	old or contradictory
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

// Function is the function grow-volumes.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
	kubelets chan struct{} // has a value for each kubelet that is asked at the moment
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.GrowVolumes, log), log: log,
		kubelets: make(chan struct{}, parallelKubelets)}
}

// Handle is safe to repeat, to reorder and to run twice at once: it reads the live set for each event. It measures the volumes once for
// each event, also if a conflict repeats the decision.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var measured *measurement
	return f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, &measured)
		if err != nil {
			return plan.Plan{}, err
		}
		decided, warnings := decideWithWarnings(in)
		f.apply.SetGrowthMetric(ctx, ref, countStuck(warnings))
		return decided, nil
	})
}
