package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/telemetry"
)

type handlerFunc func(context.Context, event.Event) (*event.Event, error)

func (f handlerFunc) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f(ctx, e)
}

func silentHandler(f handlerFunc) *EventHandler {
	return NewEventHandler("try", f, time.Minute, Orders{}, telemetry.Off(), slog.New(slog.DiscardHandler))
}

func nothing(context.Context, event.Event) (*event.Event, error) { return nil, nil }

// binary returns a request with an event in binary mode.
func binary(body string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(body))
	required := []string{"ce-specversion: 1.0", "ce-type: t", "ce-source: s", "ce-id: 1", "content-type: application/json"}
	for _, h := range append(required, headers...) {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); value == "" {
			r.Header.Del(name)
		}
	}
	return r
}

func TestStatusOfEachRequest(t *testing.T) {
	structured := func(contentType, body string) *http.Request {
		return binary(body, "ce-specversion: ", "ce-type: ", "ce-source: ", "ce-id: ", "content-type: "+contentType)
	}
	complete := `{"specversion":"1.0","type":"t","source":"s","id":"1"}`
	fails := func(err error) handlerFunc {
		return func(context.Context, event.Event) (*event.Event, error) { return nil, err }
	}
	for name, row := range map[string]struct {
		request  *http.Request
		function handlerFunc
		want     int
	}{
		"binary mode":                       {binary(`{}`), nothing, 204},
		"structured mode":                   {structured("application/cloudevents+json", complete), nothing, 204},
		"no event at all":                   {structured("application/json", `{}`), nothing, 415},
		"several events":                    {structured("application/cloudevents-batch+json", "["+complete+"]"), nothing, 415},
		"an unknown version":                {binary(`{}`, "ce-specversion: 9.9"), nothing, 415},
		"an incomplete structured event":    {structured("application/cloudevents+json", complete[:20]), nothing, 400},
		"without id":                        {binary(`{}`, "ce-id: "), nothing, 400},
		"without type":                      {binary(`{}`, "ce-type: "), nothing, 400},
		"an extension with an invalid name": {binary(`{}`, "ce-no_way: x"), nothing, 400},
		"an invalid time":                   {binary(`{}`, "ce-time: yesterday"), nothing, 400},
		"a type that is not UTF-8":          {binary(`{}`, "ce-type: a\xff"), nothing, 400},
		"an extension that is not UTF-8":    {binary(`{}`, "ce-namespace: a\xff"), nothing, 400},
		"the maximum size":                  {binary(strings.Repeat("x", MaxBytes)), nothing, 204},
		"too large":                         {binary(strings.Repeat("x", MaxBytes+1)), nothing, 413},
		"too large, structured":             {structured("application/cloudevents+json", strings.Repeat(" ", MaxBytes+1)), nothing, 413},
		"not a POST":                        {httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), nothing, 405},
		"a permanent error is not retried":  {binary(`{}`), fails(fault.Permanent(errors.New("x"))), 422},
		"a conflict":                        {binary(`{}`), fails(fault.Conflict(errors.New("x"))), 409},
		"any other error is retried":        {binary(`{}`), fails(errors.New("x")), 503},
		"a panic":                           {binary(`{}`), func(context.Context, event.Event) (*event.Event, error) { panic("x") }, 500},
		"an invalid reply": {binary(`{}`), func(context.Context, event.Event) (*event.Event, error) {
			e := event.New()
			return &e, nil
		}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			silentHandler(row.function).ServeHTTP(w, row.request)
			if w.Code != row.want {
				t.Errorf("got %d (%s), want %d", w.Code, w.Body, row.want)
			}
			if w.Code < 300 && w.Body.Len() > 0 {
				t.Errorf("for a Broker a body that is not an event is a failure, got %q", w.Body)
			}
			if w.Code >= 300 && w.Body.Len() == 0 {
				t.Error("an error has no text")
			}
		})
	}
}

// TestLongErrorIsShortened: Knative's dispatcher panics if the base64 text of an error has more than 1,024 characters.
func TestLongErrorIsShortened(t *testing.T) {
	for length, want := range map[int]int{10: 10, 767: 767, 768: 767, 5000: 767} {
		w := httptest.NewRecorder()
		silentHandler(func(context.Context, event.Event) (*event.Event, error) {
			return nil, fault.Permanent(errors.New("begin" + strings.Repeat("x", length-len("beginend")) + "end"))
		}).ServeHTTP(w, binary(`{}`))
		body := w.Body.String()
		if len(body) != want+len("\n") || !strings.HasPrefix(body, "begin") || !strings.HasSuffix(body, "end\n") {
			t.Errorf("%d bytes: the answer has %d: %s", length, len(body), body)
		}
		if encoded := base64.StdEncoding.EncodedLen(len(body)); encoded > 1024 {
			t.Errorf("%d bytes: the answer is %d characters in base64", length, encoded)
		}
	}
}

func TestReplyIsCompleteEvent(t *testing.T) {
	reply := event.New()
	reply.SetID("2")
	reply.SetType("next")
	reply.SetSource("drydock.dev/try")
	reply.SetSubject("/apis/apps/v1/namespaces/n/statefulsets/web")
	reply.SetExtension("concerns", "backup restore")
	if err := reply.SetData(event.ApplicationJSON, map[string]string{"uid": "u"}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	silentHandler(func(_ context.Context, e event.Event) (*event.Event, error) {
		if e.Type() != "t" || e.Extensions()["namespace"] != "n" || string(e.Data()) != `{"a":1}` {
			t.Errorf("the function got %s", e)
		}
		return &reply, nil
	}).ServeHTTP(w, binary(`{"a":1}`, "ce-namespace: n"))

	got, err := cehttp.NewEventFromHTTPResponse(w.Result())
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusOK || got.String() != reply.String() {
		t.Errorf("got %d and %s, want %s", w.Code, got, reply)
	}
}

func TestDeadlineCancelsFunction(t *testing.T) {
	h := silentHandler(func(ctx context.Context, _ event.Event) (*event.Event, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("waiting: %w", ctx.Err())
	})
	h.deadline = time.Millisecond
	w := httptest.NewRecorder()
	h.ServeHTTP(w, binary(`{}`))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503, so that the event is retried", w.Code)
	}
}

func TestEachEventHasOneLogLine(t *testing.T) {
	var out bytes.Buffer
	h := silentHandler(func(context.Context, event.Event) (*event.Event, error) { return nil, errors.New("no luck") })
	h.log = slog.New(slog.NewJSONHandler(&out, nil))
	h.ServeHTTP(httptest.NewRecorder(), binary(`{}`, "ce-subject: /apis/x"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("want one line of JSON, got %q: %v", out.String(), err)
	}
	for key, want := range map[string]any{
		"function": "try", "id": "1", "type": "t", "subject": "/apis/x", "outcome": "failed", "code": 503.0, "error": "no luck",
	} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
	if line["took"] == nil {
		t.Error("the line has no duration")
	}
}

func TestPanicIsLoggedWithStack(t *testing.T) {
	var out bytes.Buffer
	h := silentHandler(func(context.Context, event.Event) (*event.Event, error) { panic("the pump is broken") })
	h.log = slog.New(slog.NewJSONHandler(&out, nil))
	h.ServeHTTP(httptest.NewRecorder(), binary(`{}`))
	if text := out.String(); !strings.Contains(text, "the pump is broken") || !strings.Contains(text, "handler_test.go") {
		t.Errorf("want the panic and its stack, got %s", text)
	}
}

// TestCancelledRequestsDoNotBlockServer: many callers cancel their requests at once. The SDK's own receiver fails this
// test.
func TestCancelledRequestsDoNotBlockServer(t *testing.T) {
	const clients, connections = 1000, 200
	arrived := make(chan struct{}, clients)
	server := httptest.NewServer(silentHandler(func(ctx context.Context, e event.Event) (*event.Event, error) {
		if e.Type() != "slow" {
			return nil, nil
		}
		arrived <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections}}

	// Some requests are cancelled while they are handled, others while they wait for a connection or before they are sent.
	shared, giveUp := context.WithCancel(t.Context())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for i := range clients {
		ctx := shared
		if i%4 == 0 {
			ctx = gone
		}
		all.Go(func() {
			if response, err := client.Do(post(ctx, t, server.URL, "slow")); err == nil {
				_ = response.Body.Close()
				t.Error("a cancelled request was answered")
			}
		})
	}
	for range connections {
		<-arrived
	}
	giveUp()
	all.Wait()

	response, err := client.Do(post(t.Context(), t, server.URL, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNoContent {
		t.Errorf("got %s %s after %d cancelled requests, want 204", response.Status, body, clients)
	}
}

func post(ctx context.Context, t *testing.T, url, eventType string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = binary(`{}`, "ce-type: "+eventType).Header
	return r
}

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
