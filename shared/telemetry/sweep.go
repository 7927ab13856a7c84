package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// sweepFresh is how long the figures of a sweep are shown. A tick comes each minute. If the ticks stop, or reach another process, the
// figures here are no longer true.
const sweepFresh = 5 * time.Minute

// sweep shows the figures of the latest sweep.
type sweep struct {
	mu     sync.Mutex
	latest *Sweep // nil before the first sweep of this process
	now    func() time.Time
}

func newSweep(meter metric.Meter) (*sweep, error) {
	s := &sweep{now: time.Now}
	var gauges []gauge
	var instruments []metric.Observable
	for _, part := range []func(metric.Meter) ([]gauge, error){operationGauges, memberGauges, sleepGauges, otherGauges} {
		made, err := part(meter)
		if err != nil {
			return nil, fmt.Errorf("creating the gauges of the sweep: %w", err)
		}
		gauges = append(gauges, made...)
	}
	for _, g := range gauges {
		instruments = append(instruments, g.instrument)
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.observe(o, gauges)
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("registering the gauges of the sweep: %w", err)
	}
	return s, nil
}

// SetSweep stores the figures of a sweep.
func (h *Invocation) SetSweep(figures Sweep) {
	if h == nil {
		return
	}
	h.telemetry.sweep.mu.Lock()
	defer h.telemetry.sweep.mu.Unlock()
	h.telemetry.sweep.latest = &figures
}

// observe reports the gauges to each scrape and each export.
func (s *sweep) observe(o metric.Observer, gauges []gauge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || s.now().Sub(s.latest.At) > sweepFresh {
		return
	}
	for _, g := range gauges {
		g.report(s.latest, func(value float64, attributes ...metric.ObserveOption) {
			o.ObserveFloat64(g.instrument, value, attributes...)
		})
	}
}
