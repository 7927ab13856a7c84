// Package serve is the HTTP side of a function. It receives a CloudEvent, passes it to the function, and answers as a
// Knative Broker expects.
//
//	2xx   done; the body is the reply, one complete CloudEvent, or empty
//	400   not a valid CloudEvent; 405 not a POST; 413 too large; 415 not a CloudEvent at all
//	409, 422, 503   the function's error, as package fault maps it
//	500   the function panicked or replied with an invalid event
//
// A Broker retries after transport errors, 5xx, 404, 408, 409 and 429 (knative.dev/eventing,
// pkg/kncloudevents/retries.go). A 2xx answer whose body is not a CloudEvent counts as a failure, unless it is empty
// (pkg/broker/filter/filter_handler.go).
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/text"
)

// Handler is a function: it handles an event and may answer with the next one.
type Handler interface {
	Handle(ctx context.Context, e event.Event) (*event.Event, error)
}

const (

	// DefaultDeadline is the time limit for one event. func-go stops a handler after 30 s, and the delivery timeout of
	// the Triggers in deploy/ is 60 s.
	DefaultDeadline = 25 * time.Second
)

// EventHandler serves one function. It uses the SDK's binding, not its NewHTTPReceiveHandler: that passes events through
// an unbuffered channel, which a cancelled request blocks forever (cloudevents/sdk-go#1332).
type EventHandler struct {
	name      api.Function
	function  Handler
	deadline  time.Duration
	orders    Orders
	telemetry *telemetry.Telemetry
	log       *slog.Logger
}

// NewEventHandler returns a handler that serves the function under its name. A deadline of zero means DefaultDeadline.
func NewEventHandler(
	name api.Function, function Handler, deadline time.Duration, orders Orders, t *telemetry.Telemetry, log *slog.Logger,
) *EventHandler {
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	return &EventHandler{name: name, function: function, deadline: deadline, orders: orders, telemetry: t, log: log}
}

// ServeHTTP handles one event.
func (h *EventHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, a := h.answer(w, r)
	if err := write(ctx, w, a); err != nil {
		a.Outcome, a.Err = "unanswered", err
	}
	telemetry.From(ctx).End(ctx, a.Result)
	took := time.Since(start)
	h.report(ctx, a, took)
	h.telemetry.RecordAnswer(ctx, string(h.name), r.Method, a.eventType(), a.Result, took)
}

// answer handles the request. It also returns the context of the work on the event.
func (h *EventHandler) answer(w http.ResponseWriter, r *http.Request) (context.Context, answer) {
	e, code, err := read(w, r)
	if err != nil {
		return r.Context(), failure(code, "refused", err)
	}
	if code, err := h.orders.permit(r.Context(), r.Header, *e); err != nil {
		a := failure(code, "refused", err)
		a.event = *e
		return r.Context(), a
	}
	ctx, _ := h.telemetry.Receive(r.Context(), string(h.name), *e, r.Header)
	a := h.call(ctx, *e)
	a.event = *e
	return ctx, a
}

// call runs the function until the deadline or the end of the request.
func (h *EventHandler) call(ctx context.Context, e event.Event) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, h.deadline)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "function panicked",
				"function", h.name, "id", e.ID(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			a = failure(http.StatusInternalServerError, "panicked", fmt.Errorf("function %s panicked. See the stack in its log", h.name))
		}
	}()
	reply, err := h.function.Handle(ctx, e)
	if err == nil && reply != nil {
		if err := reply.Validate(); err != nil {
			return failure(http.StatusInternalServerError, "failed", fmt.Errorf("validating the reply: %w", err))
		}
		telemetry.Stamp(ctx, reply)
	}
	a = answer{Result: ResultOf(reply, err)}
	if err == nil {
		a.reply = reply
	}
	return a
}

// report writes one log line for the event.
func (h *EventHandler) report(ctx context.Context, a answer, took time.Duration) {
	fields := []slog.Attr{
		slog.Any("function", h.name), slog.String("outcome", a.Outcome), slog.Int("code", a.Code),
		slog.String("took", took.Round(time.Microsecond).String()),
	}
	if a.event.Context != nil {
		fields = append(fields, slog.String("id", a.event.ID()), slog.String("type", a.event.Type()))
		if a.event.Subject() != "" {
			fields = append(fields, slog.String("subject", a.event.Subject()))
		}
	}
	if a.reply != nil {
		fields = append(fields, slog.String("reply", a.reply.Type()))
	}
	level := slog.LevelInfo
	if a.Err != nil {
		level = slog.LevelWarn
		fields = append(fields, slog.String("error", a.Err.Error()))
	}
	h.log.LogAttrs(ctx, level, "event", fields...)
}

// answer is the function's answer to an event.
type answer struct {
	event event.Event // zero if the request has no valid event
	reply *event.Event
	telemetry.Result
}

// ResultOf returns the HTTP status and the outcome for a function's return values.
func ResultOf(reply *event.Event, err error) telemetry.Result {
	switch {
	case err != nil:
		return telemetry.Result{Code: fault.Status(err), Outcome: "failed", Err: err}
	case reply == nil:
		return telemetry.Result{Code: http.StatusNoContent, Outcome: "done"}
	}
	return telemetry.Result{Code: http.StatusOK, Outcome: "replied"}
}

// failure returns an answer without a reply.
func failure(code int, outcome string, err error) answer {
	return answer{Result: telemetry.Result{Code: code, Outcome: outcome, Err: err}}
}

// eventType returns "" if the request has no valid event.
func (a answer) eventType() string {
	if a.event.Context == nil {
		return ""
	}
	return a.event.Type()
}

// maxErrorBytes is the maximum size of an error's text with its newline. Knative encodes the text for the extension knativeerrordata of a
// dead letter, and panics if the result exceeds 1,024 characters (dispatchExecutionInfoTransformers in
// pkg/kncloudevents/event_dispatcher.go).
const maxErrorBytes = 1024 / 4 * 3

// write sends the answer: a complete event, an empty body, or the error's text. The log has the whole text.
func write(ctx context.Context, w http.ResponseWriter, a answer) error {
	switch {
	case a.Err != nil:
		http.Error(w, text.ClipMiddle(a.Err.Error(), maxErrorBytes-len("\n")), a.Code)
	case a.reply != nil:
		if err := cehttp.WriteResponseWriter(ctx, binding.ToMessage(a.reply), a.Code, w); err != nil {
			return fmt.Errorf("writing the reply: %w", err)
		}
	default:
		w.WriteHeader(a.Code)
	}
	return nil
}

// MaxBytes is the maximum size of an event. A StatefulSet with its managedFields has about 10 to 30 KiB.
const MaxBytes = 1 << 20

// read returns the event of the request, or the HTTP status and the error if the request has no valid event.
func read(w http.ResponseWriter, r *http.Request) (*event.Event, int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s is not supported. Send a CloudEvent with POST", r.Method)
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBytes)
	message := cehttp.NewMessageFromHttpRequest(r)
	if encoding := message.ReadEncoding(); encoding != binding.EncodingBinary && encoding != binding.EncodingStructured {
		return nil, http.StatusUnsupportedMediaType,
			errors.New("the request is not a single CloudEvent. " +
				"Send the header ce-specversion: 1.0, or the content type application/cloudevents+json")
	}
	e, err := binding.ToEvent(r.Context(), message)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("event larger than %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("reading the event: %w", err)
	}
	if err := e.Validate(); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("validating the event: %w", err)
	}
	if err := checkText(e); err != nil {
		return nil, http.StatusBadRequest, err
	}
	return e, 0, nil
}

// checkText returns an error if an attribute is not UTF-8. CloudEvents requires UTF-8, but the SDK takes any bytes of a header. They would
// reach metrics and traces, whose formats accept only UTF-8: all metrics of the process would be lost.
func checkText(e *event.Event) error {
	texts := map[string]any{"id": e.ID(), "type": e.Type(), "source": e.Source(), "subject": e.Subject()}
	maps.Copy(texts, e.Extensions())
	for name, value := range texts {
		if text, ok := value.(string); ok && !utf8.ValidString(text) {
			return fmt.Errorf("attribute %s of the event is not UTF-8", name)
		}
	}
	return nil
}
