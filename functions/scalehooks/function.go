// Package scalehooks is the only writer of a StatefulSet's replicas and of whenScaled: 0 while a sleep or a paused Scaler holds the set,
// else what is requested. A set with a Scaler is scaled in stages: the pre hook, the change of the count, the post hook. It also keeps the
// ledger of the pods of each StatefulSet with a cleanup template.
//
//	in    StatefulSet, Scaler and hook Job changes; owner.paused and wake.decided; scale.hook.completed and .failed; retry; the tick
//	get   the StatefulSet, and the HorizontalPodAutoscalers named after its Scalers; list the Scalers and the Jobs of operations in its
//	      namespace; list the Job of the current hook by its name, and pods of a failed hook Job; for a set that is stopped, or was scaled
//	      down with a cleanup template, list ControllerRevisions
//	do    patch StatefulSet: replicas, whenScaled, stop, scale, members; create and delete the record of a stop and hook Jobs; patch Scaler:
//	      status, replicas, retry; create, patch and delete the Scaler's HorizontalPodAutoscaler
//	out   scale.hook.requested, scale.completed, operation.failed
//	never changes the count before the Scaler's pre hook has succeeded; never writes spec.paused of a Scaler
package scalehooks

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

// Function is the function scale-hooks.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.ScaleHooks, log), log: log}
}

// Handle takes the next step for the event's set. It is safe to repeat, to reorder and to run twice at once: it decides from the live
// objects, and the event only triggers it. A scaling fails when the API server permanently rejects a write. A failed write of an autoscaler
// is reported in the Scaler's status, and the next event tries it again.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	hook, err := events.HookAnswerOf(e)
	if err != nil { // anyone can send it: an error would make the Broker and dead-letter report it on the set
		f.log.WarnContext(ctx, "ignored a malformed answer of a hook", "error", err)
		return nil, nil
	}
	h := handling{Function: f, answer: hook, retry: e.Type() == events.Retry}
	reply, err := f.apply.HandleRejected(ctx, e, h.nextStep)
	if err != nil && h.lastReason == api.AutoscalerKept {
		h = handling{Function: f, answer: hook, retry: h.retry, autoscalerError: fault.Text(err)}
		return f.apply.HandleRejected(ctx, e, h.nextStep)
	}
	return reply, err
}

// mostAutoscalerWrites is the number of plans in a row that may write autoscalers in one event. A conflict makes the same plan necessary
// again.
const mostAutoscalerWrites = 3

// handling is the state of handling one event, which may take several steps.
type handling struct {
	*Function
	answer              *events.HookAnswer // nil if the event answers no hook request
	retry               bool
	rejectionHandled    bool
	statusRefusalLogged bool
	lastReason          api.Reason // of the latest plan
	autoscalerWrites    int        // how many plans in a row have written autoscalers
	autoscalerError     string     // why a write of an autoscaler failed; empty if none did
	firstRejection      error      // the first rejected write
	rejectedPlan        api.Reason // the reason of the plan with that write
	autoscalerRejected  bool       // the first rejected write concerned an autoscaler
}

// nextStep observes the set and decides on the next step. rejected is the error of the previous step's write that the API server rejected.
func (h *handling) nextStep(ctx context.Context, ref events.Ref, rejected error) (plan.Plan, error) {
	if rejected != nil && h.firstRejection == nil {
		h.firstRejection, h.rejectedPlan = rejected, h.lastReason
		h.autoscalerRejected = h.lastReason == api.AutoscalerKept
	}
	if h.autoscalerRejected {
		return plan.Plan{}, rejected // the rejection does not concern the scaling
	}
	in, err := h.observe(ctx, ref)
	if err != nil {
		return plan.Plan{}, err
	}
	in.Retry, in.Answer, in.Key, in.AutoscalerError = h.retry, h.answer, rand.Text(), h.autoscalerError
	if !h.rejectionHandled { // the rejection counts once: the steps after it, such as the onFailure hook, were not rejected
		in.Rejected, in.Forbidden = fault.Text(rejected), apierrors.IsForbidden(rejected)
		in.RejectedPlan = h.rejectedPlan
	}
	in.RetryNotRemovable = scalerChangeRefused(rejected)
	if in.RefusedStatusOf = scalerOfRefusedStatus(rejected); in.RefusedStatusOf != "" && !h.statusRefusalLogged {
		h.statusRefusalLogged = true // a second Scaler of the set has no other place where this is reported
		h.log.WarnContext(ctx, "the API server rejects the status of a Scaler", "scaler", ref.Namespace+"/"+in.RefusedStatusOf,
			"error", rejected.Error())
	}
	if in.mayBeginScaling() {
		in.Trace = h.apply.Begin(ctx)
	}
	decided := Decide(in)
	if decided.Kind != plan.KindDo || decided.Reason != api.AutoscalerKept {
		h.autoscalerWrites = 0
	} else if h.autoscalerWrites++; h.autoscalerWrites > mostAutoscalerWrites {
		// A mutating webhook would otherwise take all steps of each event, and no scaling would ever begin.
		h.autoscalerError = "its spec differs again right after the write, probably because an admission webhook changes it. Exempt the " +
			"autoscaler from the webhook, or set the mode externallyScaled"
		in.AutoscalerError = h.autoscalerError
		decided = Decide(in)
	}
	h.lastReason = decided.Reason
	if decided.Kind == plan.KindDo && decided.Reason != api.AutoscalerKept {
		h.retry, h.rejectionHandled = false, decided.Reason == api.Rejected // each counts once
	}
	return decided, nil
}

// scalerOfRefusedStatus returns the name of the Scaler whose status the API server rejected; empty if it rejected another write.
func scalerOfRefusedStatus(rejected error) string {
	if a := apply.FailedAction(rejected); a != nil && a.Resource == plan.ScalerStatus {
		return a.Name
	}
	return ""
}

// scalerChangeRefused reports whether the API server rejected a change of a Scaler's metadata or spec. During a scaling, that change is the
// removal of the retry annotation.
func scalerChangeRefused(rejected error) bool {
	a := apply.FailedAction(rejected)
	return a != nil && a.Resource == plan.Scalers
}
