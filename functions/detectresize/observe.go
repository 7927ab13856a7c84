package detectresize

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// Input is what Decide decides on.
type Input struct {
	// Input is what a resize is judged on. Its Cluster is read only when one is wanted.
	resize.Input
	// Denied is why the API server would refuse the pods of the movers; empty if it would take them, or nothing is copied.
	Denied string
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
	in := Input{Input: resize.Input{Observed: observed, Settings: f.settings, Registry: f.registry, Retry: asked}}
	if wanted, _ := want(in); wanted == nil && rollsBack(in) == "" {
		return in, nil
	}
	in.Trace = f.apply.Begin(ctx)
	if in.Cluster, err = f.client.Cluster(ctx, ref.Namespace); err != nil {
		return in, err
	}
	in.Denied, err = f.tryMover(ctx, moverToTry(in))
	return in, err
}

// tryMover says why the API server would refuse the pod, with admission and all. A webhook that knows no dry run leaves that open.
func (f *Function) tryMover(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod == nil {
		return "", nil
	}
	err := f.client.Try(ctx, plan.Create(plan.Pods, pod))
	switch {
	case kube.TrialOf(err) == kube.Denied:
		return strings.ReplaceAll(err.Error(), fmt.Sprintf(" %q", pod.Name), ""), nil // its name is of this attempt alone
	case kube.TrialOf(err) == kube.Accepted, apierrors.IsBadRequest(err):
		return "", nil
	}
	return "", fmt.Errorf("trying the pod of a mover: %w", fault.FromAPI(err))
}
