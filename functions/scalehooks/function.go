// Package scalehooks scales StatefulSets that have a Scaler, in stages: the hook before, the change of the count, the hook after.
//
//	in    StatefulSet, Scaler and hook Job changes; scale.hook.completed and .failed; retry; the tick
//	get   the StatefulSet, HorizontalPodAutoscalers by the names of its Scalers; list Scalers, and Jobs of operations, of its namespace; while a
//	      cleanup is waited for: claims; of a hook that has failed: pods
//	do    patch StatefulSet: scale, replicas; create and delete hook Jobs; patch Scaler: status, replicas, retry;
//	      create, patch and delete the Scaler's HorizontalPodAutoscaler
//	out   scale.hook.requested, scale.completed, operation.failed
//	never changes the count for a Scaler before its hook has succeeded
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

// Function is scale-hooks.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
}

// New makes the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.ScaleHooks, log), log: log}
}

// Handle is safe to repeat, to reorder and to run twice at once: an event only makes it look. A write that the API server refuses for good
// gives the scaling up. A write of an autoscaler that fails is told in the status, and the next event tries again.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	hook, err := events.HookAnswerOf(e)
	if err != nil {
		return nil, fault.Permanent(err)
	}
	l := look{Function: f, hook: hook, retry: e.Type() == events.Retry}
	answer, err := f.apply.HandleDenied(ctx, e, l.step)
	if err != nil && l.last == api.AutoscalerKept {
		l = look{Function: f, hook: hook, retry: l.retry, refused: fault.Text(err)}
		return f.apply.HandleDenied(ctx, e, l.step)
	}
	return answer, err
}

// look is the state while one event is handled.
type look struct {
	*Function
	hook        *events.HookAnswer // nil: the event is another one
	retry, told bool
	logged      bool
	last        api.Reason // of the latest plan
	refused     string     // why a write of an autoscaler failed
	denial      error      // the first that was told
	autoscalers bool       // it was about an autoscaler
}

func (l *look) step(ctx context.Context, ref events.Ref, denied error) (plan.Plan, error) {
	if denied != nil && l.denial == nil {
		l.denial, l.autoscalers = denied, l.last == api.AutoscalerKept
	}
	if l.autoscalers {
		return plan.Plan{}, denied // no write of the scaling was refused
	}
	in, err := l.observe(ctx, ref)
	if err != nil {
		return plan.Plan{}, err
	}
	in.Retry, in.Answer, in.Key, in.Refused = l.retry, l.hook, rand.Text(), l.refused
	if !l.told { // what comes after the end of the scaling, as its hook for a failure, was not refused
		in.Rejected, in.Forbidden = fault.Text(denied), apierrors.IsForbidden(denied)
	}
	in.RetryStays = scalerRefused(denied)
	if in.Unwritten = unwritten(denied); in.Unwritten != "" && !l.logged {
		l.logged = true // of a Scaler that does not scale the set, nothing else tells
		l.log.WarnContext(ctx, "the status of a Scaler is refused", "scaler", ref.Namespace+"/"+in.Unwritten, "error", denied.Error())
	}
	if in.mayBegin() {
		in.Trace = l.apply.Begin(ctx)
	}
	decided := Decide(in)
	l.last = decided.Reason
	if decided.Kind == plan.KindDo && decided.Reason != api.AutoscalerKept {
		l.retry, l.told = false, decided.Reason == api.Rejected // both count once
	}
	return decided, nil
}

// unwritten returns the Scaler whose status the API server refused to take; empty if it refused something else.
func unwritten(denied error) string {
	if a := apply.Failed(denied); a != nil && a.Resource == plan.ScalerStatus {
		return a.Name
	}
	return ""
}

// scalerRefused reports whether the API server refused a change of a Scaler itself. During a scaling that is the removal of a retry.
func scalerRefused(denied error) bool {
	a := apply.Failed(denied)
	return a != nil && a.Resource == plan.Scalers
}
