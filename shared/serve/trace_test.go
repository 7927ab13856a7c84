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

const came = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"

// traced serves the function with tracing on.
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

func next() event.Event {
	e := event.New()
	e.SetID("2")
	e.SetType("next")
	e.SetSource("drydock.dev/try")
	return e
}

// rendered is the traceparent of a span.
func rendered(s trace.SpanContext) string {
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// TestEveryHopCarriesTheTrace: what comes in goes on in the reply, and in what is sent meanwhile.
func TestEveryHopCarriesTheTrace(t *testing.T) {
	for name, how := range map[string]string{"in the event": "ce-traceparent: " + came, "in the header": "traceparent: " + came} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r }))
			defer sink.Close()
			original := next()
			h, recorder := traced(t, func(ctx context.Context, _ event.Event) (*event.Event, error) {
				reply := next()
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
			if rendered(span.Parent()) != came || reply.Extensions()["traceparent"] != want {
				t.Errorf("span %s of %s, the reply says %v", want, rendered(span.Parent()), reply.Extensions())
			}
			if sent.Header.Get("Ce-Traceparent") != want || sent.Header.Get("Traceparent") != want || len(original.Extensions()) != 0 {
				t.Errorf("sent with %v, the sender's own has %v", sent.Header, original.Extensions())
			}
		})
	}
}

// TestWithoutTracingNothingIsAdded, whatever comes in.
func TestWithoutTracingNothingIsAdded(t *testing.T) {
	var sent *http.Request
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r }))
	defer sink.Close()
	w := httptest.NewRecorder()
	quietly(func(ctx context.Context, _ event.Event) (*event.Event, error) {
		reply := next()
		return &reply, NewSender(sink.URL, nil).Send(ctx, next())
	}).ServeHTTP(w, binary(`{}`, "ce-traceparent: "+came, "traceparent: "+came))
	for _, header := range []http.Header{w.Header(), sent.Header} {
		for name := range header {
			if strings.Contains(strings.ToLower(name), "trace") {
				t.Errorf("there is %s: %s", name, header.Get(name))
			}
		}
	}
	if w.Code != http.StatusOK {
		t.Errorf("answered %d", w.Code)
	}
}

func TestHowItEndedIsOnTheSpan(t *testing.T) {
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
		t.Error("a request that holds no event has a span")
	}
}
