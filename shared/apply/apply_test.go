package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
)

// writer records writes and answers each with the next of its errors. It repeats the last error, and answers nil without errors.
type writer struct {
	writes []string
	errs   []error
	events []*corev1.Event
}

func (w *writer) answer(format string, args ...any) error {
	w.writes = append(w.writes, fmt.Sprintf(format, args...))
	if len(w.errs) == 0 {
		return nil
	}
	err := w.errs[0]
	if len(w.errs) > 1 || err == nil {
		w.errs = w.errs[1:]
	}
	return err
}

func (w *writer) Create(_ context.Context, resource plan.Resource, _ string, object runtime.Object, dryRun bool) error {
	if e, ok := object.(*corev1.Event); ok {
		w.events = append(w.events, e)
	}
	if dryRun {
		return w.answer("try %s", resource)
	}
	return w.answer("create %s", resource)
}

func (w *writer) Patch(_ context.Context, resource plan.Resource, _, name string, body []byte) (string, error) {
	return "8", w.answer("patch %s %s %s", resource, name, body)
}

func (w *writer) Delete(_ context.Context, resource plan.Resource, _, name string, uid types.UID, version string, orphan bool) error {
	return w.answer("delete %s %s %s %s %t", resource, name, uid, version, orphan)
}

func (w *writer) Evict(_ context.Context, _, name string, uid types.UID, dryRun bool) error {
	if dryRun {
		return w.answer("try to evict %s %s", name, uid)
	}
	return w.answer("evict %s %s", name, uid)
}

func (w *writer) Version(_ context.Context, resource plan.Resource, _, name string) (types.UID, string, error) {
	return "u", "7", w.answer("check %s %s", resource, name)
}

var (
	claims   = schema.GroupResource{Resource: "persistentvolumeclaims"}
	claim    = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "7"}}
	older    = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "6"}}
	other    = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "v", ResourceVersion: "7"}}
	conflict = apierrors.NewConflict(claims, "a", errors.New("it has changed"))
	exists   = apierrors.NewAlreadyExists(claims, "a")
	notFound = apierrors.NewNotFound(claims, "a")
	quota    = apierrors.NewForbidden(claims, "a", errors.New("exceeded quota"))
	misfit   = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing failed", 0, false)
	denied   = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 422, Message: "a webhook denied it"}}
	invalid  = apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "a", nil)
	failing  = apierrors.NewInternalError(errors.New("failed calling webhook"))
	busy     = apierrors.NewTooManyRequests("later", 1)
)

func remove() plan.Plan { return plan.Do(api.CleaningUp, plan.Delete(plan.Claims, claim)) }

// forbiddenByBudget returns the answer to an eviction that a PodDisruptionBudget does not allow.
func forbiddenByBudget() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause})
	return err
}

// evict returns a plan that evicts a pod.
func evict() plan.Plan {
	return plan.Do(api.CleaningUp, plan.Evict(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "p"}}))
}

// tryFirst returns a plan that deletes the claim after a dry run of its creation.
func tryFirst() plan.Plan {
	return plan.Do(api.CleaningUp, plan.Try(plan.Claims, claim), plan.Delete(plan.Claims, claim))
}

// unlessChanged returns a plan that evicts a pod if the claim has not changed since it was read.
func unlessChanged(read *corev1.PersistentVolumeClaim) plan.Plan {
	return plan.Do(api.CleaningUp, append([]plan.Action{plan.CheckUnchanged(plan.Claims, read)}, evict().Actions...)...)
}

// unlessExists returns a plan that evicts a pod if the claim does not exist.
func unlessExists() plan.Plan {
	return plan.Do(api.CleaningUp, append([]plan.Action{plan.CheckAbsent(plan.Claims, "shop", "a")}, evict().Actions...)...)
}

// run carries out the plans one after the other. It repeats the last one for ever.
func run(t *testing.T, w *writer, plans ...plan.Plan) (p plan.Plan, steps int, err error) {
	t.Helper()
	p, err = New(w, api.Restore, slog.New(slog.DiscardHandler)).Run(t.Context(), func(context.Context) (plan.Plan, error) {
		steps++
		return plans[min(steps, len(plans))-1], nil
	})
	return p, steps, err
}

// TestEveryWriteCarriesItsPrecondition checks the calls for all verbs.
// Invariants: I2.
func TestEveryWriteCarriesItsPrecondition(t *testing.T) {
	orphan := plan.Delete(plan.Claims, claim)
	orphan.Orphan = true
	p := plan.Do(api.CleaningUp, plan.Create(plan.Claims, claim), plan.Delete(plan.Claims, claim), orphan).Then("x", "")
	p.Actions = append(p.Actions, plan.PatchOf(plan.Claims, claim).Annotate("a", "<1>").Actions()...)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "p", ResourceVersion: "8"}}
	p.Actions = append(p.Actions, plan.TryEvict(pod), plan.Evict(pod), plan.Stop(pod))
	w := &writer{}
	if _, _, err := run(t, w, p); err != nil {
		t.Fatal(err)
	}
	want := []string{"create persistentvolumeclaims", "delete persistentvolumeclaims a u 7 false", "delete persistentvolumeclaims a u 7 true",
		`patch persistentvolumeclaims a [{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
			`{"op":"add","path":"/metadata/annotations","value":{}},` +
			`{"op":"add","path":"/metadata/annotations/a","value":"\u003c1\u003e"}]`,
		"try to evict web-0 p", "evict web-0 p", "delete pods web-0 p  false"}
	if got := strings.Join(w.writes, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestDeletionAfterAPatchUsesTheNewVersion: the deletion was decided on the state before the patch. A second patch of the object keeps the
// former version and fails, because its operations, for example on a list of finalizers, fit no other state.
func TestDeletionAfterAPatchUsesTheNewVersion(t *testing.T) {
	other := claim.DeepCopy()
	other.Name, other.ResourceVersion = "b", "9"
	twin := claim.DeepCopy() // the same version of another object
	twin.Name = "c"
	patch := func(key string) plan.Action { return plan.PatchOf(plan.Claims, claim).Annotate(key, "x").Actions()[0] }
	p := plan.Do(api.CleaningUp, patch("one"), plan.Delete(plan.Claims, other), plan.Delete(plan.Claims, twin), patch("two"),
		plan.Delete(plan.Claims, claim)).Then("x", "")
	w := &writer{}
	if _, _, err := run(t, w, p); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"value":"7"`, "b u 9 false", "c u 7 false", `"value":"7"`, "a u 8 false"} {
		if !strings.Contains(w.writes[i], want) {
			t.Errorf("write %d is %s, want %s", i, w.writes[i], want)
		}
	}
	if before := p.Actions[4].ResourceVersion; before != "7" {
		t.Errorf("the plan itself was changed: %v", before)
	}
}

// slow is an API server that needs a long time for each write.
type slow struct{ *writer }

func (s slow) Patch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) (string, error) {
	time.Sleep(stale + time.Second)
	return s.writer.Patch(ctx, resource, namespace, name, body)
}

func (s slow) Create(ctx context.Context, resource plan.Resource, namespace string, object runtime.Object, dryRun bool) error {
	time.Sleep(stale + time.Second)
	return s.writer.Create(ctx, resource, namespace, object, dryRun)
}

// TestStalePlanDeletesNothing uses a fake clock. A plan that has not written anything yet continues, because the next one would be as slow.
func TestStalePlanDeletesNothing(t *testing.T) {
	marked := plan.PatchOf(plan.Claims, claim).Annotate("one", "x").Actions()
	for name, row := range map[string]struct {
		plan   plan.Plan
		steps  int
		writes string
	}{
		"after a slow patch":   {plan.Do(api.CleaningUp, append(marked, plan.Delete(plan.Claims, claim))...), 2, "patch"},
		"after a slow dry run": {tryFirst(), 2, "try delete"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, steps := &writer{}, 0
			_, err := New(slow{w}, api.Restore, slog.New(slog.DiscardHandler)).Run(t.Context(), func(context.Context) (plan.Plan, error) {
				if steps++; steps == 1 {
					return row.plan, nil
				}
				return plan.Noop(api.UpToDate), nil
			})
			var verbs []string
			for _, write := range w.writes {
				verb, _, _ := strings.Cut(write, " ")
				verbs = append(verbs, verb)
			}
			if got := strings.Join(verbs, " "); err != nil || steps != row.steps || got != row.writes {
				t.Errorf("%s: %d steps, writes %q, error %v; want %d and %q", name, steps, got, err, row.steps, row.writes)
			}
		})
	}
}

// TestRun covers the ends of an event: its steps, writes and status.
// Invariants: I8.
func TestRun(t *testing.T) {
	note := plan.Event("shop", "web", plan.Note{Reason: api.StatusInvalid, Message: "m"})
	two := remove()
	two.Actions = append(two.Actions, two.Actions[0])
	for name, row := range map[string]struct {
		plans  []plan.Plan
		errs   []error
		steps  int
		writes int
		kind   plan.Kind
		status int
	}{
		"nothing to do":                 {[]plan.Plan{plan.Noop(api.UpToDate)}, nil, 1, 0, plan.KindNoop, 200},
		"something has to happen first": {[]plan.Plan{plan.Wait(api.Quiescing, "x")}, nil, 1, 0, plan.KindWait, 200},
		"it takes steps until there is nothing to do": {[]plan.Plan{remove(), remove(), plan.Noop(api.UpToDate)}, nil, 3, 2, plan.KindNoop,
			200},
		"an announcement ends it":                    {[]plan.Plan{remove().Then("x", ""), remove()}, nil, 1, 1, plan.KindDo, 200},
		"a plan of Events alone is carried out once": {[]plan.Plan{plan.Do(api.StatusInvalid, note)}, nil, 1, 1, plan.KindDo, 200},
		"another process wrote: it decides again": {[]plan.Plan{remove(), plan.Noop(api.UpToDate)}, []error{conflict, nil}, 2, 1,
			plan.KindNoop, 200},
		"the name is taken: it decides again": {[]plan.Plan{plan.Do(api.Preparing, plan.Create(plan.Claims, claim)),
			plan.Noop(api.UpToDate)}, []error{exists, nil}, 2, 1, plan.KindNoop, 200},
		"the object is gone: it decides again": {[]plan.Plan{remove(), plan.Noop(api.UpToDate)}, []error{notFound, nil}, 2, 1,
			plan.KindNoop, 200},
		"a conflict stops the rest of the plan": {[]plan.Plan{two, plan.Noop(api.UpToDate)}, []error{conflict, nil}, 2, 1,
			plan.KindNoop, 200},
		"another process wins many steps, but not all: it goes on": {append(slices.Repeat([]plan.Plan{remove()}, 16),
			plan.Noop(api.UpToDate)), append(slices.Repeat([]error{conflict}, 15), nil), 17, 16, plan.KindNoop, 200},
		"a patch no longer fits the object": {[]plan.Plan{remove(), plan.Noop(api.UpToDate)}, []error{misfit, nil}, 2, 1,
			plan.KindNoop, 200},
		"a webhook denies it with the same code: permanent": {[]plan.Plan{two}, []error{denied}, 1, 1, plan.KindDo, 422},
		"the content is invalid: permanent":                 {[]plan.Plan{two}, []error{invalid}, 1, 1, plan.KindDo, 422},
		"the quota is exceeded: permanent":                  {[]plan.Plan{two}, []error{quota}, 1, 1, plan.KindDo, 422},
		"the API server is busy: retry later":               {[]plan.Plan{remove()}, []error{busy}, 1, 1, plan.KindDo, 503},
		"plans without end are stopped":                     {[]plan.Plan{remove()}, nil, maxSteps, maxSteps, plan.KindWait, 200},
		"a dry run passes: the next action follows": {[]plan.Plan{tryFirst(), plan.Noop(api.UpToDate)}, []error{nil, nil}, 2, 2,
			plan.KindNoop, 200},
		"a dry run finds only the name taken: the next action follows": {[]plan.Plan{tryFirst(), plan.Noop(api.UpToDate)},
			[]error{exists, nil}, 2, 2,
			plan.KindNoop, 200},
		"a dry run is refused: nothing is deleted":      {[]plan.Plan{tryFirst()}, []error{quota}, 1, 1, plan.KindDo, 422},
		"a dry run is not answered: nothing is deleted": {[]plan.Plan{tryFirst()}, []error{failing}, 1, 1, plan.KindDo, 503},
		"the budget forbids it: the function decides":   {[]plan.Plan{evict()}, []error{forbiddenByBudget()}, 1, 1, plan.KindDo, 422},
		"the API server is too busy to evict":           {[]plan.Plan{evict()}, []error{busy}, 1, 1, plan.KindDo, 503},
		"the pod to evict is gone: it decides again": {[]plan.Plan{evict(), plan.Noop(api.UpToDate)}, []error{notFound, nil}, 2, 1,
			plan.KindNoop, 200},
		"the pod to evict was replaced: it decides again": {[]plan.Plan{evict(), plan.Noop(api.UpToDate)}, []error{conflict, nil}, 2, 1,
			plan.KindNoop, 200},
		"a check finds the object unchanged: the next action follows": {[]plan.Plan{unlessChanged(claim), plan.Noop(api.UpToDate)}, nil, 2, 2,
			plan.KindNoop, 200},
		"a check finds another version: it decides again": {[]plan.Plan{unlessChanged(older), plan.Noop(api.UpToDate)}, nil, 2, 1,
			plan.KindNoop, 200},
		"a check finds another object: it decides again": {[]plan.Plan{unlessChanged(other), plan.Noop(api.UpToDate)}, nil, 2, 1,
			plan.KindNoop, 200},
		"a check finds no object: it decides again": {[]plan.Plan{unlessChanged(claim), plan.Noop(api.UpToDate)}, []error{notFound, nil}, 2, 1,
			plan.KindNoop, 200},
		"a check finds no object, as expected: the next action follows": {[]plan.Plan{unlessExists(), plan.Noop(api.UpToDate)},
			[]error{notFound, nil}, 2, 2, plan.KindNoop, 200},
		"a check finds an unexpected object: it decides again": {[]plan.Plan{unlessExists(), plan.Noop(api.UpToDate)}, nil, 2, 1,
			plan.KindNoop, 200},
		"a check is not answered: retry later": {[]plan.Plan{unlessChanged(claim)}, []error{failing}, 1, 1, plan.KindDo, 503},
		"an unknown verb":                      {[]plan.Plan{plan.Do(api.UpToDate, plan.Action{Verb: "dance"})}, nil, 1, 0, plan.KindDo, 422},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the pauses after conflicts pass at once
				w := &writer{errs: row.errs}
				p, steps, err := run(t, w, row.plans...)
				if steps != row.steps || len(w.writes) != row.writes || p.Kind != row.kind || fault.Status(err) != row.status {
					t.Errorf("%d steps, %d writes, %s, status %d (%v); want %+v", steps, len(w.writes), p, fault.Status(err), err, row)
				}
			})
		})
	}
}

func TestFailedObservationEndsTheEvent(t *testing.T) {
	w := &writer{}
	_, err := New(w, api.Restore, slog.New(slog.DiscardHandler)).Run(t.Context(), func(context.Context) (plan.Plan, error) {
		return remove(), errors.New("the API server is away")
	})
	if err == nil || len(w.writes) != 0 {
		t.Errorf("%v, %v", err, w.writes)
	}
}

// TestRunRepeatsStepsWithinItsPatience uses a fake clock.
func TestRunRepeatsStepsWithinItsPatience(t *testing.T) {
	soon := plan.WaitSoon(api.CleaningUp, "it is ending")
	t.Run("until there is nothing to wait for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if p, steps, err := run(t, &writer{}, soon, soon, plan.Noop(api.UpToDate)); p.Kind != plan.KindNoop || steps != 3 || err != nil {
				t.Errorf("%s after %d steps, %v", p, steps, err)
			}
		})
	})
	t.Run("until its patience is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			p, steps, err := run(t, &writer{}, soon)
			took := time.Since(begin)
			if p.Kind != plan.KindWait || err != nil || took < patience || took > patience+longestPause || steps > 30 {
				t.Errorf("%s after %d steps and %s, %v", p, steps, took, err)
			}
		})
	})
	t.Run("while another process keeps writing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			p, steps, err := run(t, &writer{errs: []error{conflict}}, remove())
			took := time.Since(begin)
			if p.Kind != plan.KindDo || !fault.IsConflict(err) || took < patience || took > patience+2*longestPause || steps > 40 {
				t.Errorf("%s after %d steps and %s, %v", p, steps, took, err)
			}
		})
	})
	t.Run("until the event's time is over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		steps := 0
		p, err := New(&writer{}, api.Restore, slog.New(slog.DiscardHandler)).Run(ctx, func(context.Context) (plan.Plan, error) {
			steps++
			return soon, nil
		})
		if p.Kind != plan.KindWait || steps != 1 || err != nil {
			t.Errorf("%s after %d steps, %v", p, steps, err)
		}
	})
}

func TestSameNoteIsOneEvent(t *testing.T) {
	record := func(note plan.Note) *corev1.Event {
		w := &writer{}
		if _, _, err := run(t, w, plan.Do(api.CopyFailed, plan.Event("shop", "web", note))); err != nil {
			t.Fatal(err)
		}
		return w.events[0]
	}
	note := plan.Note{Warning: true, Reason: api.CopyFailed, Message: "it failed", UID: "u", Operation: "op"}
	first := record(note)
	if first.InvolvedObject.Kind != "StatefulSet" || first.InvolvedObject.Name != "web" || first.InvolvedObject.UID != "u" ||
		first.Namespace != "shop" ||
		first.Type != "Warning" || first.Reason != "CopyFailed" || first.Message != "it failed" || first.Source.Component != "drydock-restore" {
		t.Errorf("%+v", first)
	}
	if record(note).Name != first.Name {
		t.Error("the same note is two Events")
	}
	for name, change := range map[string]func(*plan.Note){
		"another message":   func(n *plan.Note) { n.Message = "x" },
		"another reason":    func(n *plan.Note) { n.Reason = api.Aborted },
		"another operation": func(n *plan.Note) { n.Operation = "op2" },
		"another set":       func(n *plan.Note) { n.UID = "u2" },
	} {
		other := note
		change(&other)
		if record(other).Name == first.Name {
			t.Errorf("%s has the same name", name)
		}
	}
	note.Message = strings.Repeat("ü", 1000) + ". Delete the pod"
	if m := record(note).Message; len(m) > 1024 || !utf8.ValidString(m) || !strings.HasSuffix(m, "ü. Delete the pod") {
		t.Errorf("a long message has %d bytes: %q", len(m), m[len(m)-8:])
	}
}

// TestEventThatCannotBeRecordedStopsNothing: the operation's record has the same content.
func TestEventThatCannotBeRecordedStopsNothing(t *testing.T) {
	note := plan.Event("shop", "web", plan.Note{Reason: api.CopyFailed, Message: "m"})
	for _, err := range []error{quota, exists, busy, errors.New("connection reset")} {
		w := &writer{errs: []error{err, nil}}
		p := plan.Do(api.CopyFailed, note, plan.Delete(plan.Claims, claim)).Then("x", "")
		if _, steps, failed := run(t, w, p); failed != nil || steps != 1 || len(w.writes) != 2 {
			t.Errorf("%v: %d steps, writes %v, %v", err, steps, w.writes, failed)
		}
	}
}

func TestErrorNamesTheActionThatFailed(t *testing.T) {
	w := &writer{errs: []error{quota}}
	step := func(context.Context) (plan.Plan, error) { return remove(), nil }
	_, err := New(w, api.Restore, slog.New(slog.DiscardHandler)).Run(t.Context(), step)
	if a := FailedAction(err); a == nil || a.Verb != plan.VerbDelete || !strings.HasPrefix(err.Error(), a.String()+": ") {
		t.Errorf("%v: %v", err, a)
	}
	if a := FailedAction(quota); a != nil {
		t.Errorf("%v", a)
	}
}

// TestStepGetsTheErrorOfAFailedWrite: the step may end the operation. If it does not, the event fails.
func TestStepGetsTheErrorOfAFailedWrite(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		next   plan.Plan // after the error
		writes int
		status int
	}{
		"a webhook does not answer, and the step acts": {failing, plan.Do(api.DeadlineExceeded, plan.Create(plan.Claims, claim)).Then("x", ""),
			2, 200},
		"a webhook does not answer, and the step does nothing": {failing, plan.Noop(api.Rejected), 1, 503},
		"the API server is busy: the step gets no error": {busy, plan.Do(api.DeadlineExceeded, plan.Create(plan.Claims, claim)).Then("x", ""), 1,
			503},
		"the API server refuses: the step gets the error": {quota, plan.Do(api.DeadlineExceeded, plan.Create(plan.Claims, claim)).Then("x", ""),
			2, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{errs: []error{row.err, nil}}
			_, err := New(w, api.Restore, slog.New(slog.DiscardHandler)).HandleFailures(t.Context(),
				events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: "shop", Name: "web"}, "1"),
				func(_ context.Context, _ events.Ref, failures plan.Failures) (plan.Plan, error) {
					if failures.Last() != nil {
						return row.next, nil
					}
					return remove(), nil
				})
			if len(w.writes) != row.writes || fault.Status(err) != row.status {
				t.Errorf("writes %v, status %d (%v); want %d and %d", w.writes, fault.Status(err), err, row.writes, row.status)
			}
		})
	}
}

// TestStepDecidesAgainUntilTheSameWriteFailsTwice: each failed write may need another decision, and the same one needs none.
func TestStepDecidesAgainUntilTheSameWriteFailsTwice(t *testing.T) {
	w, seen := &writer{errs: []error{quota, quota, quota}}, 0
	_, err := New(w, api.Restore, slog.New(slog.DiscardHandler)).HandleFailures(t.Context(),
		events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: "shop", Name: "web"}, "1"),
		func(_ context.Context, _ events.Ref, failures plan.Failures) (plan.Plan, error) {
			seen = len(failures)
			if len(failures) == 0 {
				return remove(), nil
			}
			return plan.Do(api.DeadlineExceeded, plan.Create(plan.Claims, claim)), nil
		})
	if len(w.writes) != 3 || seen != 2 || FailedAction(err) == nil || FailedAction(err).Verb != plan.VerbCreate {
		t.Errorf("writes %v, the step saw %d failures, error %v", w.writes, seen, err)
	}
}

// TestLogLinesNameTheSet: kubectl drydock logs finds the lines of a set by it.
func TestLogLinesNameTheSet(t *testing.T) {
	var log bytes.Buffer
	e := events.NewStep(api.Backup, events.BackupCompleted, events.Ref{Namespace: "shop", Name: "web"})
	executor := New(&writer{}, api.Restore, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 2 {
		_, err := executor.Handle(t.Context(), e, func(context.Context, events.Ref) (plan.Plan, error) {
			return plan.Wait(api.InProgress, "its turn"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if strings.Count(line, `"set":"shop/web"`) != 1 || !strings.Contains(line, `"function":"restore"`) {
			t.Error(line)
		}
	}
}

// TestFiguresOfFailedWriteAreNotMeasured: after a conflict, the next plan has the same figures, and only its write ends something.
func TestFiguresOfFailedWriteAreNotMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := measure.Receive(t.Context(), "restore", event.New(), nil)
	patch := plan.PatchOf(plan.Claims, claim).Annotate("a", "b").Measure(
		plan.Measurement{Figure: plan.OperationSeconds, Kind: api.KindResize, Phase: api.Succeeded, Value: 60},
		plan.Measurement{Figure: plan.DowntimeSeconds, Kind: api.KindResize, Value: 7},
		plan.Measurement{Figure: plan.WakeSeconds, Value: 8},
		plan.Measurement{Figure: plan.CopiedBytes, Value: 9})
	w, plans := &writer{errs: []error{conflict, nil}}, []plan.Plan{plan.Do(api.CleaningUp, patch.Actions()...),
		plan.Do(api.CleaningUp, patch.Actions()...), plan.Noop(api.UpToDate)}
	if _, err := New(w, api.Restore, slog.New(slog.DiscardHandler)).Run(ctx, func(context.Context) (plan.Plan, error) {
		next := plans[0]
		plans = plans[1:]
		return next, nil
	}); err != nil || len(w.writes) != 2 {
		t.Fatal(w.writes, err)
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			got[m.Name] = data.DataPoints[0].Sum
		case metricdata.Sum[int64]:
			got[m.Name] = float64(data.DataPoints[0].Value)
		}
	}
	want := map[string]float64{"drydock.operation.duration": 60, "drydock.member.downtime": 7, "drydock.wake.duration": 8, "drydock.copied": 9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDryRunRefusedByWebhookDeletesNothing: a webhook refuses the claim. If its answer has no code, the API server reports 400 without a
// reason. A webhook chooses its words.
func TestDryRunRefusedByWebhookDeletesNothing(t *testing.T) {
	for name, denial := range map[string]*apierrors.StatusError{
		"without a code": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400,
			Message: `admission webhook "policies.example" denied the request: class gold is not allowed`}},
		"with its own quota": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "quota.tenants.example" denied the request: tenant shop has exceeded quota: 100Gi of gold`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{errs: []error{denial, nil}}
			_, _, err := run(t, w, tryFirst(), plan.Noop(api.UpToDate))
			if len(w.writes) != 1 || err == nil {
				t.Errorf("the webhook refused the successor, and the claim was deleted: %v (error %v)", w.writes, err)
			}
		})
	}
}

// TestDryRunRefusedOnlyAsDryRun: a quota still counts the present claim, or a webhook does not support dry runs. Neither refuses the claim.
func TestDryRunRefusedOnlyAsDryRun(t *testing.T) {
	for name, answer := range map[string]error{
		"a quota": apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, claim.Name,
			errors.New("exceeded quota: team, requested: requests.storage=1Gi, used: requests.storage=1Gi, limited: requests.storage=1Gi")),
		"a webhook": apierrors.NewBadRequest(`admission webhook "policies.example" does not support dry run`),
	} {
		w := &writer{errs: []error{answer, nil}}
		if _, _, err := run(t, w, tryFirst(), plan.Noop(api.UpToDate)); len(w.writes) != 2 || err != nil {
			t.Errorf("%s: %v, %v", name, w.writes, err)
		}
	}
}
