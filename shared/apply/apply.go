// Package apply carries plans out. It is the only writer to the cluster.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
)

// Writer has the calls of the API server that the executor needs.
type Writer interface {
	Create(ctx context.Context, resource plan.Resource, namespace string, object runtime.Object, dryRun bool) error
	// Patch returns the resourceVersion that the object has then.
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

// New makes the executor of a function.
func New(write Writer, from api.Function, log *slog.Logger) *Executor {
	return &Executor{write: write, from: from, log: log.With("function", from)}
}

// Handle answers an event about a StatefulSet: step plans for the set that the event names, until nothing is left to do
// now. The answer is the announcement of the last plan. A malformed event is permanent: no retry would make it better.
func (x *Executor) Handle(ctx context.Context, e event.Event,
	step func(context.Context, events.Ref) (plan.Plan, error)) (*event.Event, error) {
	ref, err := events.SetOf(e)
	if err != nil {
		return nil, fault.Permanent(err)
	}
	telemetry.From(ctx).About(ref.Namespace, ref.Name, ref.Operation)
	done, err := x.Run(ctx, func(ctx context.Context) (plan.Plan, error) { return step(ctx, ref) })
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

// HandleDenied is Handle for functions that go on when the API server refuses a write for good: then step is told why, and
// may give the operation up instead of the event.
func (x *Executor) HandleDenied(ctx context.Context, e event.Event, step func(ctx context.Context, ref events.Ref,
	denied error) (plan.Plan, error)) (*event.Event, error) {
	var denied error
	look := func(ctx context.Context, ref events.Ref) (plan.Plan, error) { return step(ctx, ref, denied) }
	answer, err := x.Handle(ctx, e, look)
	if fault.IsPermanent(err) {
		denied = err
		answer, err = x.Handle(ctx, e, look)
	}
	return answer, err
}

// HandleFailing is HandleDenied for functions that must also end an operation while the API server fails to carry out a write,
// as with an admission webhook that does not answer. The step gets that error, too. If it has nothing to do for it, the event fails.
func (x *Executor) HandleFailing(ctx context.Context, e event.Event, step func(ctx context.Context, ref events.Ref,
	failure error) (plan.Plan, error)) (*event.Event, error) {
	answer, err := x.HandleDenied(ctx, e, step)
	if !apierrors.IsInternalError(err) {
		return answer, err
	}
	acted := false
	answer, again := x.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		p, failed := step(ctx, ref, err)
		acted = acted || p.Kind == plan.KindDo
		return p, failed
	})
	if again == nil && !acted {
		return nil, err
	}
	return answer, again
}

// Begin tells the telemetry that an operation may begin with the event, in another trace. The result belongs into
// the operation's status; empty when tracing is off.
func (x *Executor) Begin(ctx context.Context) string { return telemetry.From(ctx).Begin(ctx) }

// Cleanups tells the telemetry how many ordinals of the set wait for their cleanup, and how many have a pod.
func (x *Executor) Cleanups(ctx context.Context, ref events.Ref, pending, running int) {
	telemetry.From(ctx).Cleanups(ref.Namespace, ref.Name, pending, running)
}

// Growth sets the metric for the templates of the set whose volumes are nearly full and may not grow.
func (x *Executor) Growth(ctx context.Context, ref events.Ref, stuck int) {
	telemetry.From(ctx).Growth(ref.Namespace, ref.Name, stuck)
}

// Bounds of one event. Whatever is left after them is taken up by the next event or tick. The patience is well below
// the deadline of an event.
const (
	maxSteps     = 60
	maxConflicts = 8
	patience     = 8 * time.Second
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Run asks step for a plan and carries it out, again and again, until nothing is left to do now or a plan announces
// something. Every plan is made from objects that were read after the plan before, so that no decision rests on stale ones. If a
// precondition does not hold, step is asked again.
func (x *Executor) Run(ctx context.Context, step func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
	conflicts, waited, pause := 0, time.Duration(0), firstPause
	for range maxSteps {
		p, err := step(ctx)
		if err != nil {
			return p, err
		}
		telemetry.From(ctx).Decided(string(p.Kind), string(p.Reason), p.Operation)
		if p.Soon && waited < patience && sleep(ctx, pause) {
			waited, pause = waited+pause, min(2*pause, longestPause)
			continue
		}
		if p.Kind != plan.KindDo {
			x.log.DebugContext(ctx, "decided", "plan", p)
			return p, nil
		}
		pause = firstPause
		err = x.do(ctx, p)
		switch {
		case fault.IsConflict(err) && conflicts < maxConflicts:
			conflicts++
			x.log.InfoContext(ctx, "somebody else wrote, looking again", "plan", p, "conflict", err.Error())
			continue
		case err != nil:
			return p, err
		}
		x.log.InfoContext(ctx, "done", "plan", p)
		x.count(ctx, p)
		if p.Announce != "" || tellsOnly(p) {
			return p, nil
		}
	}
	return plan.Wait(api.InProgress, "%d steps taken, more with the next event", maxSteps), nil
}

// count measures the ends of pieces of work that the plan has brought about.
func (x *Executor) count(ctx context.Context, p plan.Plan) {
	for _, o := range p.Outcomes {
		telemetry.From(ctx).Cleaned(ctx, o.Namespace, o.Set, o.Result, o.Took)
	}
}

// tellsOnly reports whether the plan changes nothing that a next look could see.
func tellsOnly(p plan.Plan) bool {
	return !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb != plan.VerbRecord })
}

// sleep reports false when the event's time is up.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// stale is the age at which a plan deletes and evicts nothing more. Such a write cannot be taken back, and its precondition is about its
// own object only: since the look, another process may have started the pod that uses a claim, or may have stopped another member.
const stale = 5 * time.Second

func (x *Executor) do(ctx context.Context, p plan.Plan) error {
	began, wrote := time.Now(), false
	for left := p.Actions; len(left) > 0; {
		a := left[0]
		if wrote && time.Since(began) > stale && (a.Verb == plan.VerbDelete || a.Verb == plan.VerbEvict) {
			return fault.Conflict(fmt.Errorf("%s: the plan is older than %s", a, stale)) // what it wrote, the next one need not
		}
		wrote = wrote || a.Verb != plan.VerbTry && a.Verb != plan.VerbCheck && !a.Try
		version, err := x.one(ctx, a)
		if err != nil {
			return failure{a, err}
		}
		left = plan.Follow(a, version, left[1:])
	}
	return nil
}

// failure is an error with the action that it ended.
type failure struct {
	action plan.Action
	error
}

func (f failure) Error() string { return fmt.Sprintf("%s: %v", f.action, f.error) }

func (f failure) Unwrap() error { return f.error }

// Failed returns the action that ended with the error; nil if none did.
func Failed(err error) *plan.Action {
	var f failure
	if !errors.As(err, &f) {
		return nil
	}
	return &f.action
}

// one carries out the action. It returns the object's resourceVersion after a patch.
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
		return tried(x.write.Create(ctx, a.Resource, a.Namespace, a.Object, true))
	case plan.VerbDelete:
		return fault.FromAPI(changed(x.write.Delete(ctx, a.Resource, a.Namespace, a.Name, a.UID, a.ResourceVersion, a.Orphan)))
	case plan.VerbEvict:
		return evicted(x.write.Evict(ctx, a.Namespace, a.Name, a.UID, a.Try))
	case plan.VerbCheck:
		return x.check(ctx, a)
	case plan.VerbRecord:
		x.record(ctx, a)
		return nil
	}
	return fault.Permanent(fmt.Errorf("unknown verb %q", a.Verb))
}

// check reads the action's object and returns a conflict if it has changed, is gone, or should not be there.
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

// evicted classifies the answer to an eviction. A PodDisruptionBudget that does not allow it is answered with 429
// (kubernetes pkg/registry/core/pod/storage/eviction.go), and may not allow it for long.
func evicted(err error) error {
	if apierrors.IsTooManyRequests(err) {
		return fault.Budget(err)
	}
	return fault.FromAPI(changed(err))
}

// tried classifies the answer to a dry run. That the name is taken is the last thing that the API server looks at: admission and
// validation have passed (kubernetes staging apiserver pkg/registry/generic/registry/store.go).
func tried(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fault.Trial(fault.FromAPI(err))
}

// changed makes conflicts of answers about an object that has changed since it was read: it is gone, or the patch does not
// fit it any more. A patch that does not fit, for example because another process has removed the same label, is answered
// with 422 before its resourceVersion is looked at, but without the reason Invalid, which a rejected content has
// (kubernetes staging apiserver pkg/endpoints/handlers/patch.go).
func changed(err error) error {
	unfit := apierrors.IsInvalid(err) && apierrors.ReasonForError(err) != metav1.StatusReasonInvalid
	if apierrors.IsNotFound(err) || unfit {
		return fault.Conflict(err)
	}
	return err
}

// record writes a Kubernetes Event. Its name derives from its words, so the same words twice are one Event. The record has these words
// already, so a failure to write the Event is logged and stops nothing.
func (x *Executor) record(ctx context.Context, a plan.Action) {
	sum := sha256.Sum256([]byte(string(a.Note.UID) + "\x00" + a.Note.Operation + "\x00" + string(a.Note.Reason) + "\x00" + a.Note.Message))
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace,
			Name:      fmt.Sprintf("drydock.%s", hex.EncodeToString(sum[:8])),
		},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: a.Namespace, Name: a.Name, UID: a.Note.UID},
		Type:           a.Note.EventType(), Reason: string(a.Note.Reason), Message: truncate(a.Note.Message, 1024),
		Source:         corev1.EventSource{Component: "drydock-" + string(x.from)},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := x.write.Create(ctx, plan.Events, a.Namespace, e, false); err != nil && !apierrors.IsAlreadyExists(err) {
		x.log.WarnContext(ctx, "recording a Kubernetes Event", "set", a.Namespace+"/"+a.Name, "reason", a.Note.Reason, "error", err)
	}
}

// truncate keeps a message within the API server's limit (kubernetes pkg/apis/core/validation/events.go: 1 KiB).
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}
