//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	apiserver "knative.dev/eventing/pkg/adapter/apiserver/events"

	"drydock.dev/eventsource/sift"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/telemetry"
	"drydock.dev/test/kit"
)

// TestOneResizeIsOneTrace, although a resize takes several ticks and each tick is a trace of its own.
func TestOneResizeIsOneTrace(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for _, name := range []string{"web", "log"} { // two at once, with a trace each
		w.CreateSet(kit.WorldSet(name, 1, "64Mi", "data"))
		w.Annotate(name, map[string]string{api.ResizeAnnotation: "data=128Mi"})
	}
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	measure, err := telemetry.New(noop.Meter{}, provider.Tracer("test"))
	if err != nil {
		t.Fatal(err)
	}
	drive := w.Drive(nil)
	drive.Telemetry = measure
	traces, spans := map[string]string{}, recorder.Ended
	for _, name := range []string{"web", "log"} {
		status := w.Finish(drive, name)
		expectPhase(t, status, api.Succeeded)
		traces[status.Operation] = strings.Split(status.Trace, "-")[1]
	}
	if len(traces) != 2 || len(slices.Compact(slices.Sorted(maps.Values(traces)))) != 2 {
		t.Fatalf("two operations, traces %v", traces)
	}
	for operation, trace := range traces {
		expectOneTrace(t, spans(), operation, trace)
	}
	expectWholeTrees(t, spans())
}

// expectOneTrace checks that the trace has every span of the operation, of all functions, and no other span.
func expectOneTrace(t *testing.T, spans []sdktrace.ReadOnlySpan, operation, trace string) {
	t.Helper()
	functions, linked, writes := map[string]bool{}, map[string]bool{}, 0
	for _, s := range spans {
		of, in := valueOf(s, "drydock.operation"), s.SpanContext().TraceID().String()
		if strings.HasPrefix(s.Name(), "PATCH ") && in == trace {
			writes++
		}
		if of == operation && in != trace || of != "" && of != operation && in == trace {
			t.Errorf("span %q of operation %s is in trace %s, want %s in %s", s.Name(), of, in, operation, trace)
		}
		if of != operation {
			continue
		}
		functions[valueOf(s, "faas.name")] = true
		t.Logf("%s %s: %s, %d links, child of %s", operation, s.Name(), valueOf(s, "drydock.plan.reason"), len(s.Links()),
			s.Parent().SpanID())
		for _, l := range s.Links() {
			linked[l.SpanContext.TraceID().String()] = true
		}
	}
	for _, f := range []string{"detect-resize", "pause-owner", "backup", "restore"} {
		if !functions[f] {
			t.Errorf("no span of %s for operation %s, only of %v", f, operation, slices.Collect(maps.Keys(functions)))
		}
	}
	if len(linked) < 1 || writes < 10 {
		t.Errorf("operation %s: woken by %d other traces, %d patches have a span; want one and more, and ten and more",
			operation, len(linked), writes)
	}
}

// expectWholeTrees checks that every parent is a recorded span.
func expectWholeTrees(t *testing.T, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range spans {
		known[s.SpanContext().TraceID().String()+s.SpanContext().SpanID().String()] = true
	}
	for _, s := range spans {
		if p := s.Parent(); p.IsValid() && !known[p.TraceID().String()+p.SpanID().String()] {
			t.Errorf("span %q has a parent that was never there", s.Name())
		}
	}
}

func valueOf(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.AsString()
		}
	}
	return ""
}

// TestTracingOffLeavesNoTrace in events or stored objects.
func TestTracingOffLeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	passed := 0
	drive.OnEvent = func(e event.Event) {
		passed++
		for name := range e.Extensions() {
			if strings.HasPrefix(name, "trace") {
				t.Errorf("event %s carries %s", e.Type(), name)
			}
		}
		body, err := json.Marshal(w.Set("web"))
		if err != nil || strings.Contains(string(body), `"trace`) || strings.Contains(string(body), `\"trace`) {
			t.Errorf("the set has a trace: %s (%v)", body, err)
		}
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if passed < 5 {
		t.Errorf("only %d events passed", passed)
	}
}

// TestRolloutCostsOneInvocationPerEventAndNoCall: only sift gets the status updates of a rollout, and it does not ask
// the API server.
// Invariants: I7.
func TestRolloutCostsOneInvocationPerEventAndNoCall(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 2, "64Mi", "data")
	set.Annotations[api.ResizeAnnotation] = api.AutoRequest
	w.CreateSet(set)
	updates := rollOut(t, w)

	calls := 0
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counter{&calls, next}
	})
	function := sift.New(kube.NewClient(config), api.Settings{}, nil, slog.New(slog.DiscardHandler))
	woken := 0
	for _, object := range updates {
		ctx, e, err := apiserver.MakeUpdateEvent("https://127.0.0.1", "source", object, false)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := function.Handle(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		if answer != nil {
			woken++
		}
	}
	t.Logf("a rollout of 2 replicas and a label: %d updates, as many invocations of sift, %d other functions woken, %d API calls",
		len(updates), woken, calls)
	if len(updates) < 4 || woken != 0 || calls != 0 {
		t.Errorf("%d updates woke %d functions and cost %d API calls", len(updates), woken, calls)
	}
}

// rollOut changes the pod template and an irrelevant label. It returns every update of the set until the rollout is
// complete.
func rollOut(t *testing.T, w *kit.World) []*unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := w.Set("web")
	watcher, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	w.PatchSet("web", `{"metadata":{"labels":{"irrelevant":"yes"}},"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
	var updates []*unstructured.Unstructured
	for change := range watcher.ResultChan() {
		set, ok := change.Object.(*appsv1.StatefulSet)
		if !ok {
			t.Fatalf("watching: %v", change)
		}
		set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, object); err != nil {
			t.Fatal(err)
		}
		updates = append(updates, object)
		if set.Generation > before.Generation && set.Status.ObservedGeneration == set.Generation && set.Status.UpdatedReplicas == 2 &&
			set.Status.ReadyReplicas == 2 && set.Status.CurrentRevision == set.Status.UpdateRevision {
			return updates
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// counter counts requests.
type counter struct {
	calls *int
	next  http.RoundTripper
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	*c.calls++
	return c.next.RoundTrip(r)
}
