package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"drydock.dev/shared/telemetry"
)

const incoming = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"

// traced returns a handler of the function with tracing on.
func traced(t *testing.T, f handlerFunc) (*EventHandler, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	measure, err := telemetry.New(noop.Meter{}, provider.Tracer("test"))
	if err != nil {
		t.Fatal(err)
	}
	return NewEventHandler("try", f, time.Minute, Orders{}, measure, slog.New(slog.DiscardHandler)), recorder
}

func nextEvent() event.Event {
	e := event.New()
	e.SetID("2")
	e.SetType("next")
	e.SetSource("drydock.dev/try")
	return e
}

// rendered returns the traceparent of a span.
func rendered(s trace.SpanContext) string {
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// TestTraceContinuesInReplyAndSentEvents: the trace of the event continues in the reply and in events that the function
// sends.
func TestTraceContinuesInReplyAndSentEvents(t *testing.T) {
	for name, how := range map[string]string{"in the event": "ce-traceparent: " + incoming, "in the header": "traceparent: " + incoming} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r }))
			defer sink.Close()
			original := nextEvent()
			h, recorder := traced(t, func(ctx context.Context, _ event.Event) (*event.Event, error) {
				reply := nextEvent()
				return &reply, NewSender(sink.URL, nil).Send(ctx, original)
			})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, binary(`{}`, how))
			reply, err := cehttp.NewEventFromHTTPResponse(w.Result())
			if err != nil {
				t.Fatal(err)
			}
			span := recorder.Ended()[0]
			want := rendered(span.SpanContext())
			if rendered(span.Parent()) != incoming || reply.Extensions()["traceparent"] != want {
				t.Errorf("span %s below %s, the reply has %v", want, rendered(span.Parent()), reply.Extensions())
			}
			if sent.Header.Get("Ce-Traceparent") != want || sent.Header.Get("Traceparent") != want || len(original.Extensions()) != 0 {
				t.Errorf("sent with %v, the original event has %v", sent.Header, original.Extensions())
			}
		})
	}
}

// TestWithoutTracingNothingIsAdded: that holds whatever trace context the request has.
func TestWithoutTracingNothingIsAdded(t *testing.T) {
	var sent *http.Request
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r }))
	defer sink.Close()
	w := httptest.NewRecorder()
	silentHandler(func(ctx context.Context, _ event.Event) (*event.Event, error) {
		reply := nextEvent()
		return &reply, NewSender(sink.URL, nil).Send(ctx, nextEvent())
	}).ServeHTTP(w, binary(`{}`, "ce-traceparent: "+incoming, "traceparent: "+incoming))
	for _, header := range []http.Header{w.Header(), sent.Header} {
		for name := range header {
			if strings.Contains(strings.ToLower(name), "trace") {
				t.Errorf("found %s: %s", name, header.Get(name))
			}
		}
	}
	if w.Code != http.StatusOK {
		t.Errorf("answered %d", w.Code)
	}
}

func TestSpanHasOutcome(t *testing.T) {
	for name, row := range map[string]struct {
		function handlerFunc
		outcome  string
		status   codes.Code
	}{
		"done":     {nothing, "done", codes.Unset},
		"failed":   {func(context.Context, event.Event) (*event.Event, error) { return nil, errors.New("x") }, "failed", codes.Error},
		"panicked": {func(context.Context, event.Event) (*event.Event, error) { panic("x") }, "panicked", codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			h, recorder := traced(t, row.function)
			var out bytes.Buffer
			h.log = slog.New(telemetry.LogHandler(slog.NewJSONHandler(&out, nil)))
			h.ServeHTTP(httptest.NewRecorder(), binary(`{}`))
			span, found := recorder.Ended()[0], map[string]string{}
			for _, a := range span.Attributes() {
				found[string(a.Key)] = a.Value.String()
			}
			if found["drydock.outcome"] != row.outcome || span.Status().Code != row.status || span.Name() != "try t" {
				t.Errorf("%s: %v %v", span.Name(), found, span.Status())
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			var line map[string]any
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line["trace_id"] != span.SpanContext().TraceID().String() {
				t.Errorf("%v in %s", err, out.String())
			}
		})
	}
	h, recorder := traced(t, nothing)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if len(recorder.Started()) != 0 {
		t.Error("a request without an event has a span")
	}
}
