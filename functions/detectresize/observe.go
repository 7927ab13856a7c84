package detectresize

import (
	"context"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/resize"
)

// Input is what Decide decides on.
type Input struct {
	// Input is what a resize is judged on. Its Cluster is read only when one is wanted.
	resize.Input
	Settings api.Settings
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
}

func (f *Function) observe(ctx context.Context, ref events.Ref, asked *resize.Retry) (Input, error) {
	observed, err := f.client.Observe(ctx, ref)
	if err != nil {
		return Input{}, err
	}
	in := Input{Input: resize.Input{Observed: observed, Registry: f.registry, Retry: asked}, Settings: f.settings}
	if wanted, _ := want(in); wanted == nil && rollsBack(in) == "" {
		return in, nil
	}
	in.Trace = f.apply.Begin(ctx)
	in.Cluster, err = f.client.Cluster(ctx, ref.Namespace)
	return in, err
}
