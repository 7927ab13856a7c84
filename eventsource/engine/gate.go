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

// admissionWait is how long an event from outside waits for room. The source's adapter tries again six times within
// three seconds of waiting, so a full engine holds a watch back for half a minute before an event is lost to the tick.
const admissionWait = 5 * time.Second

// gate stands before the channel. It answers 202 at once and delivers afterwards, and it counts what is under way.
// Events from outside are admitted while there is room; replies always are, since a chain that could not go on would
// never make room. One event makes at most one reply a Trigger, so what is under way stays bounded.
type gate struct {
	limit  int
	next   http.Handler
	passed func(Passed)
	log    *slog.Logger

	mu       sync.Mutex
	inFlight int
	admitted int           // admitted, not yet in flight
	closed   bool          // nothing more from outside
	changed  chan struct{} // closed and replaced when room was made
	context  context.Context

	refused metric.Int64Counter
	events  metric.Int64Counter
}

func newGate(limit int, passed func(Passed), meter metric.Meter, log *slog.Logger) (*gate, error) {
	g := &gate{limit: limit, passed: passed, log: log, closed: true, changed: make(chan struct{})}
	var failed [3]error
	g.refused, failed[0] = meter.Int64Counter("drydock.engine.refused", metric.WithUnit("{event}"),
		metric.WithDescription("Events from outside that found no room in the engine."))
	g.events, failed[1] = meter.Int64Counter("drydock.engine.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events that passed the Broker: delivered (to each subscriber or its dead-letter sink), or lost."))
	_, failed[2] = meter.Int64ObservableUpDownCounter("drydock.engine.in_flight", metric.WithUnit("{event}"),
		metric.WithDescription("Events under way in the engine."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(g.count()))
			return nil
		}))
	if err := errors.Join(failed[:]...); err != nil {
		return nil, fmt.Errorf("making the engine's instruments: %w", err)
	}
	g.refused.Add(context.Background(), 0) // so that it is there from the start
	return g, nil
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// open lets events in and delivers them within the context.
func (g *gate) open(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.context, g.closed = ctx, false
}

// drain lets nothing more in and waits until nothing is under way, but not for longer than the limit.
func (g *gate) drain(limit time.Duration) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	deadline := time.After(limit)
	for {
		g.mu.Lock()
		left, changed := g.inFlight+g.admitted, g.changed
		g.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			g.log.Warn("events given up at the end; the tick after the next start makes up for them", "events", left)
			return
		}
	}
}

// admit guards the ingress for events from outside.
func (g *gate) admit(ingress http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.enter(r.Context()) {
			g.refused.Add(r.Context(), 1)
			http.Error(w, "too many events are under way; try again later", http.StatusServiceUnavailable)
			return
		}
		defer g.settle(func() { g.admitted-- })
		ingress.ServeHTTP(w, r)
	})
}

// enter waits for room.
func (g *gate) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, admissionWait)
	defer cancel()
	for {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return false
		}
		if g.inFlight+g.admitted < g.limit {
			g.admitted++
			g.mu.Unlock()
			return true
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// settle changes the counts and wakes who waits for room.
func (g *gate) settle(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.changed)
	g.changed = make(chan struct{})
}

// ServeHTTP takes an event from the ingress and has it delivered.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the event: "+err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.inFlight++
	ctx := g.context
	g.mu.Unlock()
	if g.passed != nil {
		g.passed(passedFrom(r.Header))
	}
	deliver := r.Clone(ctx)
	deliver.Body = io.NopCloser(bytes.NewReader(body))
	go func() {
		defer g.settle(func() { g.inFlight-- })
		g.deliver(deliver)
	}()
	w.WriteHeader(http.StatusAccepted)
}

// What became of an event.
var (
	delivered = metric.WithAttributes(attribute.String("result", "delivered"))
	lost      = metric.WithAttributes(attribute.String("result", "lost"))
)

// deliver waits until every subscriber has the event, or its dead-letter sink has.
func (g *gate) deliver(r *http.Request) {
	w := &statusWriter{header: http.Header{}}
	g.next.ServeHTTP(w, r)
	if w.status < http.StatusMultipleChoices {
		g.events.Add(r.Context(), 1, delivered)
		return
	}
	g.events.Add(r.Context(), 1, lost)
	g.log.Error("event lost: neither a subscriber nor its dead-letter sink took it; the next tick makes up for it",
		"type", r.Header.Get("Ce-Type"), "id", r.Header.Get("Ce-Id"), "subject", r.Header.Get("Ce-Subject"))
}

// statusWriter keeps nothing but the status.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header         { return w.header }
func (w *statusWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *statusWriter) WriteHeader(status int)      { w.status = status }
