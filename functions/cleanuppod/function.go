// Package cleanuppod runs the user's cleanup pod on the claims that a scale-down left behind, and then deletes the claims.
//
//	in    StatefulSet and cleanup pod changes; retry; the tick
//	get   the StatefulSet; list claims and pods; get and list ControllerRevisions if the set is being deleted
//	do    create and delete cleanup pods; delete claims; patch StatefulSet: cleanup, finalizer; patch claims: replica-of;
//	      delete the pods of a set that is deleted with cleanup-on-delete
//	out   cleanup.completed, operation.failed
//	never deletes a claim before a cleanup pod succeeded on it; never deletes a claim that no replica of this set used;
//	never begins without an order in the set's ledger, which scale writes
package cleanuppod

import (
	"context"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is cleanup-pod.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.CleanupPod, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run concurrently, because an event only triggers a reconcile. If the API server
// rejects a write permanently, that try of the cleanup failed.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	retry, told := e.Type() == events.Retry, false
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, retry)
		if err != nil {
			return plan.Plan{}, err
		}
		rejected := failures.Rejected().Err
		if !told {
			in.Rejected = fault.Text(rejected)
		}
		in.NamespaceEnds = apierrors.HasStatusCause(rejected, corev1.NamespaceTerminatingCause)
		if in.mayStart() {
			in.Trace = f.apply.Begin(ctx)
		}
		pending, running := in.Tally()
		f.apply.SetCleanupMetrics(ctx, ref, pending, running)
		decided := Decide(in)
		if decided.Kind == plan.KindDo {
			retry, told = false, rejected != nil // the retry and the rejection each count once
		}
		return decided, nil
	})
}
