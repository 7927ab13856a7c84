// Package apply carries out plans. It is the only writer to the cluster.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/text"
)

// Writer has the calls of the API server that the executor needs.
type Writer interface {
	Create(ctx context.Context, resource plan.Resource, namespace string, object runtime.Object, dryRun bool) error
	// Patch returns the object's new resourceVersion.
	Patch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) (version string, err error)
	Delete(ctx context.Context, resource plan.Resource, namespace, name string, uid types.UID, version string, orphan bool) error
	Evict(ctx context.Context, namespace, name string, uid types.UID, dryRun bool) error
	// Version returns the UID and the resourceVersion of an object.
	Version(ctx context.Context, resource plan.Resource, namespace, name string) (uid types.UID, version string, err error)
}

// Executor carries out the plans of one function.
type Executor struct {
	write Writer
	from  api.Function
	log   *slog.Logger
}

// New returns the executor of a function.
func New(write Writer, from api.Function, log *slog.Logger) *Executor {
	return &Executor{write: write, from: from, log: log.With("function", from)}
}

// Handle answers an event for a StatefulSet. It carries out the plans of step for that set until there is nothing left to do now. The
// answer is the announcement of the last plan. A malformed event is a permanent error, because no retry would help.
func (x *Executor) Handle(ctx context.Context, e event.Event,
	step func(context.Context, events.Ref) (plan.Plan, error)) (*event.Event, error) {
	ref, err := events.SetOf(e)
	if err != nil {
		return nil, fault.Permanent(err)
	}
	telemetry.From(ctx).SetObject(ref.Namespace, ref.Name, ref.Operation)
	done, err := x.about(ref).Run(ctx, func(ctx context.Context) (plan.Plan, error) { return step(ctx, ref) })
	if err == nil && done.Wakes != nil {
		other := events.Ref{Namespace: done.Wakes.Namespace, Name: done.Wakes.Name, UID: done.Wakes.UID}
		answer := events.NewChanged(other, e.ID(), x.from)
		return &answer, nil
	}
	if err != nil || done.Announce == "" {
		return nil, err
	}
	ref.Operation, ref.Purpose = done.Operation, done.Purpose
	answer := events.NewStep(x.from, done.Announce, ref)
	if done.Data != nil {
		answer.SetID(answer.ID() + "/" + done.Part)
		err = answer.SetData(event.ApplicationJSON, done.Data)
	}
	return &answer, err
}

// about returns the executor with the set in each line of its log, so that kubectl drydock logs finds the lines of a set.
func (x *Executor) about(ref events.Ref) *Executor {
	one := *x
	one.log = x.log.With("set", ref.String())
	return &one
}

// HandleFailures does the same as Handle, for functions that decide again after a failed write. It calls step with the failures of the
// event so far. The event fails if the same write fails again, or if step does nothing about a write that the API server failed to carry
// out: that may succeed when the event is delivered again.
func (x *Executor) HandleFailures(ctx context.Context, e event.Event,
	step func(context.Context, events.Ref, plan.Failures) (plan.Plan, error)) (*event.Event, error) {
	var failures plan.Failures
	for {
		acted, latest := false, plan.Plan{}
		answer, err := x.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
			p, err := step(ctx, ref, failures)
			acted, latest = acted || p.Kind == plan.KindDo, p
			return p, err
		})
		failed := FailedAction(err)
		switch last := failures.Last(); {
		case err == nil && !acted && last != nil && !fault.IsPermanent(last):
			return nil, last
		case failed == nil, !fault.IsPermanent(err) && !apierrors.IsInternalError(err), failures.Has(*failed):
			return answer, err
		}
		failures = append(failures, plan.Failure{Action: *failed, Plan: latest.Reason, Err: err})
	}
}

// Begin starts the trace of an operation that may begin with the event. The result belongs in the operation's record. It is empty if
// tracing is off.
func (x *Executor) Begin(ctx context.Context) string { return telemetry.From(ctx).Begin(ctx) }

// SetCleanupMetrics sets the metrics for the ordinals of the set that wait for their cleanup, and for those with a cleanup pod.
func (x *Executor) SetCleanupMetrics(ctx context.Context, ref events.Ref, pending, running int) {
	telemetry.From(ctx).SetRemainingCleanups(ref.Namespace, ref.Name, pending, running)
}

// SetGrowthMetric sets the metric for the set's templates with nearly full volumes that may not grow.
func (x *Executor) SetGrowthMetric(ctx context.Context, ref events.Ref, stuck int) {
	telemetry.From(ctx).SetStuckTemplates(ref.Namespace, ref.Name, stuck)
}

// Limits for one event. The next event or tick does the remaining work. The patience, the sum of all pauses, is well below the deadline of
// an event.
const (
	maxSteps      = 60
	patience      = 8 * time.Second
	firstPause    = 20 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	conflictPause = 5 * time.Millisecond // the first after a conflict
)

// Run calls step for a plan and carries it out, repeatedly, until there is nothing left to do now or a plan has an announcement. Each plan
// must be made from objects that were read after the former plan, so that no decision depends on stale objects. If a precondition fails,
// Run calls step again, until its patience is over: a faster process may win many steps one after the other.
func (x *Executor) Run(ctx context.Context, step func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
	waited, pause, conflicts := time.Duration(0), firstPause, conflictBackoff()
	hold := func(d time.Duration) bool {
		waited += d
		return waited-d < patience && sleep(ctx, d)
	}
	for range maxSteps {
		p, err := step(ctx)
		if err != nil {
			return p, err
		}
		telemetry.From(ctx).SetDecision(string(p.Kind), string(p.Reason), p.Operation)
		if p.Soon && hold(pause) {
			pause = min(2*pause, longestPause)
			continue
		}
		if p.Kind != plan.KindDo {
			x.log.DebugContext(ctx, "decided", "plan", p)
			return p, nil
		}
		pause = firstPause
		err = x.do(ctx, p)
		if err == nil {
			conflicts = conflictBackoff()
		}
		switch {
		case fault.IsConflict(err) && hold(conflicts.Step()):
			x.log.InfoContext(ctx, "another process wrote, deciding again", "plan", p, "conflict", err.Error())
			continue
		case err != nil:
			return p, err
		}
		x.log.InfoContext(ctx, "done", "plan", p)
		x.count(ctx, p)
		if p.Announce != "" || p.Wakes != nil || onlyEvents(p) {
			return p, nil
		}
	}
	return plan.Wait(api.InProgress, "%d steps taken, the next event continues", maxSteps), nil
}

// conflictBackoff returns pauses each of which is twice as long as the one before, and up to twice as long again at random, so that
// processes that write to the same object stop preventing each other.
func conflictBackoff() wait.Backoff {
	return wait.Backoff{Duration: conflictPause, Factor: 2, Jitter: 1, Cap: longestPause, Steps: maxSteps}
}

// count measures the outcomes of the plan.
func (x *Executor) count(ctx context.Context, p plan.Plan) {
	for _, o := range p.Outcomes {
		telemetry.From(ctx).CountFinishedCleanup(ctx, o.Namespace, o.Set, o.Result, o.Took)
	}
}

// measure records the figures of the operation or step that ended with the action, which has succeeded. The precondition of a patch makes
// it succeed at most once. If the process ends before this, the figures are lost.
func measure(ctx context.Context, a plan.Action) {
	hop := telemetry.From(ctx)
	for _, m := range a.Measurements {
		switch m.Figure {
		case plan.OperationSeconds:
			hop.RecordOperation(ctx, string(m.Kind), string(m.Phase), m.Value)
		case plan.DowntimeSeconds:
			hop.RecordDowntime(ctx, string(m.Kind), m.Value)
		case plan.WakeSeconds:
			hop.RecordWake(ctx, m.Value)
		case plan.CopiedBytes:
			hop.CountCopied(ctx, int64(m.Value))
		}
	}
}

// onlyEvents reports whether the plan only writes Kubernetes Events, so that another step would see no change.
func onlyEvents(p plan.Plan) bool {
	return !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb != plan.VerbEvent })
}

// sleep returns false when the event's time is over.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// stale is the age after which a plan deletes and evicts nothing more. Such a write cannot be undone, and its precondition covers only its
// own object. Since the observation, another process may have started a pod on a claim, or may have stopped another member.
const stale = 5 * time.Second

func (x *Executor) do(ctx context.Context, p plan.Plan) error {
	began, wrote := time.Now(), false
	for left := p.Actions; len(left) > 0; {
		a := left[0]
		if wrote && time.Since(began) > stale && (a.Verb == plan.VerbDelete || a.Verb == plan.VerbEvict) {
			return fault.Conflict(fmt.Errorf("%s: the plan is older than %s", a, stale)) // the next plan does not repeat its writes
		}
		wrote = wrote || a.Verb != plan.VerbTry && a.Verb != plan.VerbCheck && !a.Try
		version, err := x.one(ctx, a)
		if err != nil {
			return failure{a, err}
		}
		measure(ctx, a)
		left = plan.Rebase(a, version, left[1:])
	}
	return nil
}

// failure is the error of an action.
type failure struct {
	action plan.Action
	error
}

func (f failure) Error() string { return fmt.Sprintf("%s: %v", f.action, f.error) }

func (f failure) Unwrap() error { return f.error }

// FailedAction returns the action that caused the error, or nil.
func FailedAction(err error) *plan.Action {
	var f failure
	if !errors.As(err, &f) {
		return nil
	}
	return &f.action
}

// one carries out the action. After a patch it returns the object's resourceVersion.
func (x *Executor) one(ctx context.Context, a plan.Action) (version string, err error) {
	if a.Verb == plan.VerbPatch {
		return x.patch(ctx, a)
	}
	return "", x.other(ctx, a)
}

func (x *Executor) patch(ctx context.Context, a plan.Action) (version string, err error) {
	body, err := json.Marshal(a.Ops)
	if err != nil {
		return "", fault.Permanent(err)
	}
	version, err = x.write.Patch(ctx, a.Resource, a.Namespace, a.Name, body)
	return version, fault.FromAPI(changed(err))
}

func (x *Executor) other(ctx context.Context, a plan.Action) error {
	switch a.Verb {
	case plan.VerbCreate:
		return fault.FromAPI(x.write.Create(ctx, a.Resource, a.Namespace, a.Object, false))
	case plan.VerbTry:
		return tried(a, x.write.Create(ctx, a.Resource, a.Namespace, a.Object, true))
	case plan.VerbDelete:
		return fault.FromAPI(changed(x.write.Delete(ctx, a.Resource, a.Namespace, a.Name, a.UID, a.ResourceVersion, a.Orphan)))
	case plan.VerbEvict:
		return evicted(x.write.Evict(ctx, a.Namespace, a.Name, a.UID, a.Try))
	case plan.VerbCheck:
		return x.check(ctx, a)
	case plan.VerbEvent:
		x.createEvent(ctx, a)
		return nil
	}
	return fault.Permanent(fmt.Errorf("unknown verb %q", a.Verb))
}

// check reads the action's object. It returns a conflict if the object has changed, is gone, or exists although it must not.
func (x *Executor) check(ctx context.Context, a plan.Action) error {
	uid, version, err := x.write.Version(ctx, a.Resource, a.Namespace, a.Name)
	if a.UID == "" && apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && (uid != a.UID || version != a.ResourceVersion) {
		return fault.Conflict(fmt.Errorf("%s %s has changed since it was read", a.Resource, a.Name))
	}
	return fault.FromAPI(changed(err))
}

// evicted classifies the answer to an eviction. The API server answers 429 with this cause if a PodDisruptionBudget does not allow it
// (kubernetes pkg/registry/core/pod/storage/eviction.go). The budget may not allow it for a long time. The API server also answers 429 if
// it is overloaded.
func evicted(err error) error {
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return fault.Budget(err)
	}
	return fault.FromAPI(changed(err))
}

// tried classifies the answer to a dry run. The API server checks last whether the name is taken, so an existing object means that
// admission and validation have passed (kubernetes staging apiserver pkg/registry/generic/registry/store.go). Before that, it checks the
// quotas. They still count a claim that the new one will replace, so they may refuse only the dry run.
func tried(a plan.Action, err error) error {
	if apierrors.IsAlreadyExists(err) || a.Resource == plan.Claims && refusesOnlyDryRun(a, err) {
		return nil
	}
	return fault.DryRun(fault.FromAPI(err))
}

// refusesOnlyDryRun reports whether a quota refused the object, or a webhook does not support dry runs. A webhook that refuses the object
// may answer with the same codes and choose its words, but not how the message begins, or its reason (kubernetes staging apiserver
// pkg/admission/plugin/webhook/errors/statuserror.go).
func refusesOnlyDryRun(a plan.Action, err error) bool {
	quota := fmt.Sprintf("%s %q is forbidden: exceeded quota: ", a.Resource, a.Name)
	return apierrors.ReasonForError(err) == metav1.StatusReasonForbidden && strings.HasPrefix(err.Error(), quota) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonBadRequest && strings.HasSuffix(err.Error(), "does not support dry run")
}

// changed returns a conflict for answers about an object that has changed since it was read: it is gone, or the patch no longer fits.
func changed(err error) error {
	if apierrors.IsNotFound(err) || isMisfit(err) {
		return fault.Conflict(err)
	}
	return err
}

// isMisfit reports whether a JSON patch did not fit the object, for example because another process has removed the same label. The API
// server then answers 422, before it checks the resourceVersion (kubernetes staging apiserver pkg/endpoints/handlers/patch.go). Such an
// answer has empty details. A rejected content has details with its kind, and the denial of a webhook usually has none.
func isMisfit(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	details := status.Details
	return status.Reason == metav1.StatusReasonInvalid && details != nil &&
		details.Kind == "" && details.Name == "" && len(details.Causes) == 0
}

// createEvent writes a Kubernetes Event. Its name derives from its content, so that the same content yields one Event. The operation's
// record has the same content, so a failure to write the Event is only logged.
func (x *Executor) createEvent(ctx context.Context, a plan.Action) {
	sum := sha256.Sum256([]byte(string(a.Note.UID) + "\x00" + a.Note.Operation + "\x00" + string(a.Note.Reason) + "\x00" + a.Note.Message))
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace,
			Name:      fmt.Sprintf("drydock.%s", hex.EncodeToString(sum[:8])),
		},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: a.Namespace, Name: a.Name, UID: a.Note.UID},
		Type:           a.Note.EventType(), Reason: string(a.Note.Reason),
		Message:        text.ClipMiddle(a.Note.Message, 1024), // the remedy is at the end
		Source:         corev1.EventSource{Component: "drydock-" + string(x.from)},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := x.write.Create(ctx, plan.Events, a.Namespace, e, false); err != nil && !apierrors.IsAlreadyExists(err) {
		x.log.WarnContext(ctx, "writing a Kubernetes Event", "object", a.Namespace+"/"+a.Name, "reason", a.Note.Reason, "error", err)
	}
}
