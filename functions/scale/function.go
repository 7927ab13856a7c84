// Package scale is the only writer of a StatefulSet's replicas and of whenScaled: 0 while a sleep or a paused Scaler holds the set,
// else what is requested. A set with a Scaler is scaled in stages: the pre hook, the change of the count, the post hook. It also keeps the
// ledger of the pods of each StatefulSet with a cleanup template.
//
//	in    StatefulSet, Scaler and hook Job changes; owner.paused; sleep, wake and wake.decided; scale.hook.completed and .failed; retry;
//	      the tick
//	get   the StatefulSet, and the HorizontalPodAutoscalers named after its Scalers; list the Scalers and the Jobs of operations in its
//	      namespace; list the Job of the current hook by its name, and the pods of an ended hook Job with the Events about their ends; for
//	      a set that may have a stop, or was scaled down with a cleanup template, list ControllerRevisions; for one that was scaled up
//	      during a cleanup, list cleanup pods
//	do    patch StatefulSet: replicas, whenScaled, stop, scale, members; remove cleanup-from; create and delete the record of a stop and
//	      hook Jobs; patch Scaler: status, replicas; remove retry; create, patch and delete the Scaler's HorizontalPodAutoscaler
//	out   scale.hook.requested, scale.completed, operation.failed
//	never changes the count before the Scaler's pre hook has succeeded; never writes spec.paused of a Scaler
package scale

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// Function is the function scale.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.ScaleFunction, log), log: log}
}

// Handle takes the next step for the event's set. It is safe to repeat, to reorder and to run twice at once: it decides from the live
// objects, and the event only triggers it. A scaling fails when the API server permanently rejects a write. A failed write of an autoscaler
// is reported in the Scaler's status, and the next event tries it again.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if e.Type() == events.Wake || e.Type() == events.Sleep { // idle-timeout decides; by then this function has started
		return nil, nil
	}
	hook, err := events.HookAnswerOf(e)
	if err != nil { // anyone can send it: an error would make the Broker and dead-letter report it on the set
		f.log.WarnContext(ctx, "ignored a malformed answer of a hook", "error", err)
		return nil, nil
	}
	h := handling{Function: f, answer: hook, retry: e.Type() == events.Retry}
	return f.apply.HandleFailures(ctx, e, h.nextStep)
}

// mostAutoscalerWrites is the number of plans in a row that may write autoscalers in one event. A conflict makes the same plan necessary
// again.
const mostAutoscalerWrites = 3

// handling is the state of handling one event, which may take several steps.
type handling struct {
	*Function
	answer           *events.HookAnswer // nil if the event answers no hook request
	retry            bool
	handled          int // how many failures have been reported
	autoscalerWrites int // how many plans in a row have written autoscalers
}

// nextStep observes the set and decides on the next step. A rejection counts once: the steps after its report, such as the onFailure hook,
// were not rejected.
func (h *handling) nextStep(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
	in, err := h.observe(ctx, ref)
	if err != nil {
		return plan.Plan{}, err
	}
	in.Retry, in.Answer, in.Key = h.retry, h.answer, rand.Text()
	in.AutoscalerError = fault.Text(failures.OfKind(plan.Autoscalers).Err)
	if rejected := failures[h.handled:].Rejected(); concernsCount(rejected) {
		in.Rejected, in.Forbidden, in.RejectedPlan = fault.Text(rejected.Err), apierrors.IsForbidden(rejected.Err), rejected.Plan
	}
	in.RetryNotRemovable = failures.OfKind(plan.Scalers).Err != nil
	in.RecordsKept = failures.OfKind(plan.ControllerRevisions).Action.Verb == plan.VerbDelete
	if last := failures.Rejected(); last.Err != nil && last.Action.Resource == plan.ScalerStatus {
		in.RefusedStatusOf = last.Action.Name // a second Scaler of the set has no other place where this is reported
		h.log.WarnContext(ctx, "the API server rejects the status of a Scaler", "scaler", ref.Namespace+"/"+in.RefusedStatusOf,
			"error", last.Err.Error())
	}
	if in.mayBeginScaling() {
		in.Trace = h.apply.Begin(ctx)
	}
	decided := h.decide(in)
	if decided.Kind == plan.KindDo && decided.Reason != api.AutoscalerKept {
		h.retry = false // it counts once
		if decided.Reason == api.Rejected {
			h.handled = len(failures)
		}
	}
	return decided, nil
}

// concernsCount reports whether the rejected write is a part of a stop or a scaling. An autoscaler, and a record of a stop that has ended,
// are not: they delay nothing.
func concernsCount(rejected plan.Failure) bool {
	deletesRecord := rejected.Action.Resource == plan.ControllerRevisions && rejected.Action.Verb == plan.VerbDelete
	return rejected.Err != nil && rejected.Action.Resource != plan.Autoscalers && !deletesRecord
}

// decide takes the decision. A mutating webhook may change an autoscaler again right after each write. It would take all steps of each
// event, and no scaling would ever begin.
func (h *handling) decide(in Input) plan.Plan {
	if h.autoscalerWrites <= mostAutoscalerWrites {
		decided := Decide(in)
		if decided.Kind != plan.KindDo || decided.Reason != api.AutoscalerKept {
			h.autoscalerWrites = 0
			return decided
		}
		if h.autoscalerWrites++; h.autoscalerWrites <= mostAutoscalerWrites {
			return decided
		}
	}
	in.AutoscalerError = "its spec differs again right after the write, probably because an admission webhook changes it. Exempt the " +
		"autoscaler from the webhook, or set the mode externallyScaled"
	return Decide(in)
}
