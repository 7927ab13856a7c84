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
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/telemetry"
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
