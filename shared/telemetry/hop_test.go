package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// traced returns a Telemetry and the recorder of its spans.
func traced(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	measure, err := New(noop.Meter{}, provider.Tracer(ScopeName))
	if err != nil {
		t.Fatal(err)
	}
	return measure, recorder
}

// change returns an event with a traceparent in its extension.
func change(traceparent string) event.Event {
	e := event.New()
	e.SetID("7")
	e.SetType("dev.drydock.object.changed")
	e.SetSource("drydock.dev/sift")
	e.SetSubject("/apis/apps/v1/namespaces/n/statefulsets/web")
	if traceparent != "" {
		e.SetExtension(traceParent, traceparent)
	}
	return e
}

func value(s sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

func TestSpanOfEvent(t *testing.T) {
	measure, recorder := traced(t)
	header := http.Header{"Traceparent": {a2}}
	ctx, hop := measure.Receive(t.Context(), "backup", change(a1), header)
	arrived := hop.received
	time.Sleep(time.Millisecond)
	hop.SetObject("n", "web", "")
	hop.Join("0123456789ab", "")
	hop.SetDecision("wait", "CopyRunning", "")
	hop.End(ctx, Result{Code: 204, Outcome: "done"})

	span := recorder.Ended()[0]
	if span.Name() != "backup dev.drydock.object.changed" || !span.StartTime().Equal(arrived) ||
		written(span.Parent(), nil) != "child of "+a2 {
		t.Errorf("span %q of %s began at %s, the event arrived at %s", span.Name(), written(span.Parent(), nil), span.StartTime(), arrived)
	}
	for key, want := range map[attribute.Key]string{
		"cloudevents.event_id": "7", "cloudevents.event_type": "dev.drydock.object.changed", "cloudevents.event_source": "drydock.dev/sift",
		"cloudevents.event_subject": "/apis/apps/v1/namespaces/n/statefulsets/web", "faas.name": "backup", "faas.trigger": "pubsub",
		"k8s.namespace.name": "n", "k8s.statefulset.name": "web", "drydock.operation": "0123456789ab",
		"drydock.plan.kind": "wait", "drydock.plan.reason": "CopyRunning", "drydock.outcome": "done",
	} {
		if got := value(span, key).AsString(); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if !value(span, "faas.coldstart").AsBool() || value(span, "http.response.status_code").AsInt64() != 204 ||
		span.Status().Code != codes.Unset {
		t.Errorf("wrong cold start, code or status: %v %v", span.Attributes(), span.Status())
	}
}

func TestSpanHasFailure(t *testing.T) {
	measure, recorder := traced(t)
	ctx, hop := measure.Receive(t.Context(), "backup", change(""), nil)
	hop.End(ctx, Result{Code: 503, Outcome: "failed", Err: errors.New("the API server is away")})
	span := recorder.Ended()[0]
	want := sdktrace.Status{Code: codes.Error, Description: "the API server is away"}
	if span.Status() != want || value(span, "error.type").AsString() != "503" {
		t.Errorf("%v %v", span.Status(), span.Attributes())
	}
}

// TestOperationHasOneTrace: an operation begins in a new trace, which is stored. Later spans of the operation are in
// that trace, whatever event woke the function.
func TestOperationHasOneTrace(t *testing.T) {
	measure, recorder := traced(t)
	ctx, hop := measure.Receive(t.Context(), "detect-resize", change(b1), nil)
	stored := hop.Begin(ctx)
	hop.End(ctx, Result{})
	first := recorder.Ended()[0]
	if first.Parent().IsValid() || len(first.Links()) != 1 || formatTraceParent(first.Links()[0].SpanContext) != b1 ||
		formatTraceParent(first.SpanContext()) != stored {
		t.Errorf("the operation began as %s with links %v, stored %s", written(first.Parent(), nil), first.Links(), stored)
	}

	ctx, hop = measure.Receive(t.Context(), "backup", change(c1), nil)
	hop.Join("0123456789ab", stored)
	hop.Join("0123456789ab", a1) // a second read of the set for the same event
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := event.New()
	Stamp(ctx, &next)
	hop.Join("0123456789ab", b1) // no effect after the span has started
	hop.End(ctx, Result{})
	second := recorder.Ended()[1]
	if second.SpanContext().TraceID() != first.SpanContext().TraceID() ||
		next.Extensions()[traceParent] != formatTraceParent(second.SpanContext()) {
		t.Errorf("woken by another trace, the span is in trace %s, and the sent event has %v", second.SpanContext().TraceID(), next.Extensions())
	}
	if len(second.Links()) != 1 || formatTraceParent(second.Links()[0].SpanContext) != c1 {
		t.Errorf("the span does not link to the event that woke the function: %v", second.Links())
	}
}

// TestNothingIsAddedWhenTracingIsOff: no event or header gets a trace context, and there is none to store.
func TestNothingIsAddedWhenTracingIsOff(t *testing.T) {
	for name, measure := range map[string]*Telemetry{"off": Off(), "no hop": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, hop := t.Context(), (*Invocation)(nil)
			if measure != nil {
				ctx, hop = measure.Receive(ctx, "backup", change(a1), http.Header{"Traceparent": {a2}})
			}
			hop.Join("0123456789ab", b1)
			hop.SetObject("n", "web", "")
			hop.SetDecision("do", "x", "")
			hop.SetRemainingCleanups("n", "web", 1, 1)
			hop.SetStuckTemplates("n", "web", 1)
			hop.CountFinishedCleanup(ctx, "n", "web", "succeeded", time.Second)
			next, header := event.New(), http.Header{}
			Stamp(ctx, &next)
			StampHeader(ctx, header)
			if got := hop.Begin(ctx); got != "" || len(next.Extensions()) != 0 || len(header) != 0 {
				t.Errorf("stored %q, sent %v %v", got, next.Extensions(), header)
			}
			hop.End(ctx, Result{Err: errors.New("x")})
		})
	}
}

func TestLogLinesHaveSpan(t *testing.T) {
	measure, recorder := traced(t)
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&out, nil))).With("function", "backup").WithGroup("g")
	ctx, hop := measure.Receive(t.Context(), "backup", change(""), nil)
	log.InfoContext(ctx, "too early")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a line before the start of the span has a trace: %s", out.String())
	}
	hop.End(ctx, Result{})
	log.InfoContext(ctx, "done")
	at := recorder.Ended()[0].SpanContext()
	if !strings.Contains(out.String(), "trace_id="+at.TraceID().String()) || !strings.Contains(out.String(), "span_id="+at.SpanID().String()) {
		t.Errorf("%s lacks %s", out.String(), at.TraceID())
	}
	out.Reset()
	ctx, hop = Off().Receive(t.Context(), "backup", change(a1), nil)
	hop.End(ctx, Result{})
	log.InfoContext(ctx, "done")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a line has a trace although tracing is off: %s", out.String())
	}
}
