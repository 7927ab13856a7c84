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
	"drydock.dev/shared/resources"
)

// Input is what Decide decides on.
type Input struct {
	// Input has the facts on which a resize is judged. Its Cluster is read only when a resize is wanted.
	resize.Input
	// Denied is why the API server would refuse the pods of the movers; empty if it would take them, or nothing is copied.
	Denied string
	// HookDenied is why the API server would refuse the pod of a hook, with its annotation; empty if it would take it, or there is none.
	HookDenied string
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// Budget is why a PodDisruptionBudget does not allow to stop a pod now; empty if it does, or was not asked.
	Budget string
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
	if wanted, _ := want(in); wanted != nil && wanted.NamesAttributes() {
		if in.Cluster.Attributes, err = f.client.AttributesClasses(ctx); err != nil {
			return in, err
		}
	}
	pod := moverToTry(in)
	if pod == nil {
		return in, nil
	}
	if in.Denied, err = f.tryPod(ctx, pod); err != nil || in.Denied != "" {
		return in, err
	}
	in.HookDenied, err = f.tryHooks(ctx, in)
	return in, err
}

// tryHooks says why the API server would refuse the pod of a hook.
func (f *Function) tryHooks(ctx context.Context, in Input) (string, error) {
	for _, hook := range resources.Hooks {
		pod := resize.HookPod(in.Set, hook, f.settings)
		if pod == nil {
			continue
		}
		if denied, err := f.tryPod(ctx, pod); err != nil || denied != "" {
			return fmt.Sprintf("%s: %s", hook.Annotation(), denied), err
		}
	}
	return "", nil
}

// tryPod says why the API server would refuse the pod, with admission and all. A webhook that knows no dry run leaves that open.
func (f *Function) tryPod(ctx context.Context, pod *corev1.Pod) (string, error) {
	err := f.client.Try(ctx, plan.Create(plan.Pods, pod))
	switch {
	case kube.TrialOf(err) == kube.Denied:
		return strings.ReplaceAll(err.Error(), fmt.Sprintf(" %q", pod.Name), ""), nil // its name is of this attempt alone
	case kube.TrialOf(err) == kube.Accepted, apierrors.IsBadRequest(err):
		return "", nil
	}
	return "", fmt.Errorf("trying a pod: %w", fault.FromAPI(err))
}
