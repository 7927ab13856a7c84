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
	"go.opentelemetry.io/otel/trace"
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

// Contexts of three traces. a1 and a2 are spans of the same trace.
const (
	a1 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"
	a2 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2222222222222222-01"
	b1 = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-1111111111111111-01"
	c1 = "00-cccccccccccccccccccccccccccccccc-1111111111111111-00"
)

func TestInvalidTraceParentIsNoContext(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want bool
	}{
		"a context":                         {a1, true},
		"a context that is not sampled":     {c1, true},
		"nothing":                           {"", false},
		"not hexadecimal":                   {strings.Replace(a1, "a", "g", 1), false},
		"upper case":                        {strings.ToUpper(a1), false},
		"no trace":                          {"00-00000000000000000000000000000000-1111111111111111-01", false},
		"no span":                           {"00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-0000000000000000-01", false},
		"a forbidden version":               {"ff" + a1[2:], false},
		"a future version":                  {"01" + a1[2:] + "-more", true},
		"more fields than this version has": {a1 + "-more", false},
		"a truncated text":                  {a1[:len(a1)-1], false},
		"a very long other text":            {strings.Repeat("x", 1<<16), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseTraceParent(row.text); got.IsValid() != row.want {
				t.Errorf("valid %t, want %t", got.IsValid(), row.want)
			}
		})
	}
	if got := formatTraceParent(parseTraceParent(a1)); got != a1 {
		t.Errorf("%s was written as %s", a1, got)
	}
	if got := formatTraceParent(trace.SpanContext{}); got != "" {
		t.Errorf("no context was written as %q", got)
	}
}

// written describes a parent with its links.
func written(parent trace.SpanContext, links []trace.SpanContext) string {
	text := "child of " + formatTraceParent(parent)
	for _, l := range links {
		text += ", linked to " + formatTraceParent(l)
	}
	return text
}

func TestParentAndLinks(t *testing.T) {
	for name, row := range map[string]struct {
		header, extension string
		want              string
	}{
		"no context":                                        {"", "", "child of "},
		"only a header: a source with tracing":              {a1, "", "child of " + a1},
		"only an extension: a Broker without tracing":       {"", a1, "child of " + a1},
		"both of one trace: the header is nearer":           {a2, a1, "child of " + a2},
		"a reply posted in the trace of the original event": {b1, a1, "child of " + a1 + ", linked to " + b1},
		"an unreadable extension":                           {a1, "x", "child of " + a1},
		"an unreadable header":                              {"x", a1, "child of " + a1},
		"sampling makes no difference":                      {c1, a1, "child of " + a1 + ", linked to " + c1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(parentAndLinks(parseTraceParent(row.header), parseTraceParent(row.extension))); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestJoinTrace(t *testing.T) {
	for name, row := range map[string]struct {
		operation, parent string
		links             []string
		want              string
	}{
		"no operation":                          {"", b1, nil, "child of " + b1},
		"no parent":                             {a1, "", nil, "child of " + a1},
		"a parent in another trace":             {a1, b1, nil, "child of " + a1 + ", linked to " + b1},
		"a parent and a link in other traces":   {a1, b1, []string{c1}, "child of " + a1 + ", linked to " + b1 + ", linked to " + c1},
		"a parent in the operation's trace":     {a1, a2, []string{b1}, "child of " + a2 + ", linked to " + b1},
		"a link in the operation's trace":       {a1, b1, []string{a2}, "child of " + a2 + ", linked to " + b1},
		"an operation with an unreadable trace": {"x", b1, nil, "child of " + b1},
		"an operation that was not sampled":     {c1, b1, nil, "child of " + c1 + ", linked to " + b1},
	} {
		t.Run(name, func(t *testing.T) {
			var links []trace.SpanContext
			for _, l := range row.links {
				links = append(links, parseTraceParent(l))
			}
			if got := written(joinTrace(parseTraceParent(row.operation), parseTraceParent(row.parent), links)); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestStampKeepsTraceState(t *testing.T) {
	e := event.New()
	Stamp(context.Background(), &e)
	if len(e.Extensions()) != 0 {
		t.Errorf("an event without a trace got %v", e.Extensions())
	}
	e.SetExtension(traceParent, a1)
	e.SetExtension(traceState, "vendor=1")
	incoming := extract(eventCarrier{&e})
	next := event.New()
	Stamp(trace.ContextWithSpanContext(context.Background(), incoming), &next)
	if next.Extensions()[traceParent] != a1 || next.Extensions()[traceState] != "vendor=1" {
		t.Errorf("got %v", next.Extensions())
	}
}
