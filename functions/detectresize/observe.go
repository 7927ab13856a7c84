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

func (f *Function) observe(ctx context.Context, ref events.Ref, retry *resize.Retry) (Input, error) {
	observed, err := f.client.Observe(ctx, ref)
	if err != nil {
		return Input{}, err
	}
	in := Input{Input: resize.Input{Observed: observed, Settings: f.settings, Registry: f.registry, Retry: retry}}
	if wanted, _ := wantedChanges(in); wanted == nil && requestedRollback(in) == "" {
		return in, nil
	}
	in.Trace = f.apply.Begin(ctx)
	if in.Cluster, err = f.client.Cluster(ctx, ref.Namespace); err != nil {
		return in, err
	}
	if wanted, _ := wantedChanges(in); wanted != nil && wanted.NamesAttributes() {
		if in.Cluster.Attributes, err = f.client.AttributesClasses(ctx); err != nil {
			return in, err
		}
	}
	pod := moverToTry(in)
	if pod == nil {
		return in, nil
	}
	if in.PodRejected, err = f.tryPod(ctx, pod); err != nil || in.PodRejected != "" {
		return in, err
	}
	in.HookDenied, err = f.tryHooks(ctx, in)
	return in, err
}

// tryHooks returns why the API server would reject the pod of a hook, after the hook's annotation. It is empty if it accepts all hooks.
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

// tryPod makes a dry run of the pod's creation, including admission. It returns why the API server would reject the pod, or "". A webhook
// without support for dry runs counts as acceptance.
func (f *Function) tryPod(ctx context.Context, pod *corev1.Pod) (string, error) {
	err := f.client.DryRun(ctx, plan.Create(plan.Pods, pod))
	switch {
	case kube.DryRunResultOf(err) == kube.Denied:
		return strings.ReplaceAll(err.Error(), fmt.Sprintf(" %q", pod.Name), ""), nil // the name differs with each attempt
	case kube.DryRunResultOf(err) == kube.Accepted, apierrors.IsBadRequest(err):
		return "", nil
	}
	return "", fmt.Errorf("trying a pod: %w", fault.FromAPI(err))
}
