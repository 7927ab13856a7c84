package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// admissionTimeout bounds how long an event from outside waits for room. The source's adapter retries six times within three seconds of
// waiting. A full engine therefore delays a watch for half a minute before an event is lost and left to the tick.
const admissionTimeout = 5 * time.Second

// admissionGate is the handler before the channel. It responds with 202 before it delivers an event, and counts the events in flight. It
// admits events from outside while there is room. It always admits replies, because a blocked chain would never make room. An event causes
// at most one reply for each Trigger, so the number of events in flight stays bounded.
type admissionGate struct {
	limit   int
	next    http.Handler
	onEvent func(PassedEvent)
	log     *slog.Logger

	mu              sync.Mutex
	inFlight        int
	entering        int           // admitted, not yet in flight
	closed          bool          // nothing more from outside
	roomMade        chan struct{} // closed and replaced when room was made
	deliveryContext context.Context

	refusedEvents  metric.Int64Counter
	finishedEvents metric.Int64Counter
}

func newAdmissionGate(limit int, passed func(PassedEvent), meter metric.Meter, log *slog.Logger) (*admissionGate, error) {
	g := &admissionGate{limit: limit, onEvent: passed, log: log, closed: true, roomMade: make(chan struct{})}
	var failed [3]error
	g.refusedEvents, failed[0] = meter.Int64Counter("drydock.engine.refused", metric.WithUnit("{event}"),
		metric.WithDescription("Events from outside that the engine refused for lack of room."))
	g.finishedEvents, failed[1] = meter.Int64Counter("drydock.engine.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events that passed the Broker: delivered (to each subscriber or its dead-letter sink), or lost."))
	_, failed[2] = meter.Int64ObservableUpDownCounter("drydock.engine.in_flight", metric.WithUnit("{event}"),
		metric.WithDescription("Events in flight in the engine."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(g.inFlightCount()))
			return nil
		}))
	if err := errors.Join(failed[:]...); err != nil {
		return nil, fmt.Errorf("making the engine's instruments: %w", err)
	}
	g.refusedEvents.Add(context.Background(), 0) // the metric exists from the start
	return g, nil
}

func (g *admissionGate) inFlightCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// open admits events from now on, and delivers them within the context.
func (g *admissionGate) open(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deliveryContext, g.closed = ctx, false
}

// drain admits no more events from outside, and waits until no event is in flight. It waits at most for the limit.
func (g *admissionGate) drain(limit time.Duration) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	deadline := time.After(limit)
	for {
		g.mu.Lock()
		left, changed := g.inFlight+g.entering, g.roomMade
		g.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			g.log.Warn("events lost at shutdown; the first tick after the next start finds their work", "events", left)
			return
		}
	}
}

// admitFromOutside wraps the ingress: it refuses events from outside with 503 while there is no room.
func (g *admissionGate) admitFromOutside(ingress http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.waitForRoom(r.Context()) {
			g.refusedEvents.Add(r.Context(), 1)
			http.Error(w, "too many events are in flight; try again later", http.StatusServiceUnavailable)
			return
		}
		defer g.changeCounts(func() { g.entering-- })
		ingress.ServeHTTP(w, r)
	})
}

// waitForRoom reserves room for one event. It returns false if there is none in time, or if the gate is closed.
func (g *admissionGate) waitForRoom(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	for {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return false
		}
		if g.inFlight+g.entering < g.limit {
			g.entering++
			g.mu.Unlock()
			return true
		}
		changed := g.roomMade
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// changeCounts applies the change to the counts, and wakes the events that wait for room.
func (g *admissionGate) changeCounts(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.roomMade)
	g.roomMade = make(chan struct{})
}

// ServeHTTP accepts an event from the ingress, responds, and delivers the event in the background.
func (g *admissionGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the event: "+err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.inFlight++
	ctx := g.deliveryContext
	g.mu.Unlock()
	if g.onEvent != nil {
		g.onEvent(passedEventFrom(r.Header))
	}
	deliver := r.Clone(ctx)
	deliver.Body = io.NopCloser(bytes.NewReader(body))
	go func() {
		defer g.changeCounts(func() { g.inFlight-- })
		g.deliver(deliver)
	}()
	w.WriteHeader(http.StatusAccepted)
}

// Results of the delivery of an event.
var (
	delivered = metric.WithAttributes(attribute.String("result", "delivered"))
	lost      = metric.WithAttributes(attribute.String("result", "lost"))
)

// deliver sends the event, and waits until each subscriber or its dead-letter sink has accepted it.
func (g *admissionGate) deliver(r *http.Request) {
	w := &statusWriter{header: http.Header{}}
	g.next.ServeHTTP(w, r)
	if w.status < http.StatusMultipleChoices {
		g.finishedEvents.Add(r.Context(), 1, delivered)
		return
	}
	g.finishedEvents.Add(r.Context(), 1, lost)
	g.log.Error("event lost: a subscriber and its dead-letter sink did not accept it; the next tick finds its work",
		"type", r.Header.Get("Ce-Type"), "id", r.Header.Get("Ce-Id"), "subject", r.Header.Get("Ce-Subject"))
}

// statusWriter is a response writer that keeps only the status.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header         { return w.header }
func (w *statusWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *statusWriter) WriteHeader(status int)      { w.status = status }
