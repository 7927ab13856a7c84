// Package detectresize compares a StatefulSet's request with its claims, and starts a resize if there is no obstacle.
//
//	in    StatefulSet changes, resize.requested, retry; the tick
//	get   StatefulSet, claims, volumes, pods; before a resize also classes, quotas, limit ranges, the namespace
//	do    patch the StatefulSet: its record; patch claims: only their requests; evict a pod whose file system
//	      grows only when it is mounted
//	out   resize.detected, restore.completed, operation.failed
//	never touches a volume or a replica count; lowers a claim's request only if its volume could not grow
package detectresize

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
)

// Function is the function detect-resize.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
	registry owners.Registry
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, registry owners.Registry, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.DetectResize, log), settings: settings, registry: registry}
}

// Handle is safe to repeat, to reorder and to run twice at once. It reads the live objects for every event. A retry event has the same
// effect as a retry annotation.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		var retry *resize.Retry
		if e.Type() == events.Retry {
			retry = &resize.Retry{Operation: ref.Operation}
		}
		in, err := f.observe(ctx, ref, retry)
		if err != nil {
			return plan.Plan{}, err
		}
		if rejected := failures.Rejected().Err; fault.IsBudget(rejected) {
			in.Budget = fault.Words(rejected)
		} else {
			in.Rejected = fault.Text(rejected)
		}
		return Decide(in), nil
	})
}

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
