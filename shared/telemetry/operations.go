package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Attributes of operations. Their values are few: no attribute names a set.
const (
	kindKey  = attribute.Key("drydock.kind")
	phaseKey = attribute.Key("drydock.phase")
)

// operationBounds suit resizes, which take minutes or days, and sleeps, which take hours.
var operationBounds = metric.WithExplicitBucketBoundaries(5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800)

// stopBounds suit the stop of a member and the start of a set.
var stopBounds = metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)

// operations measures what ends with a write: operations, downtimes, wake-ups and copies.
type operations struct {
	duration metric.Float64Histogram
	downtime metric.Float64Histogram
	wake     metric.Float64Histogram
	copied   metric.Int64Counter
}

func newOperations(meter metric.Meter) (*operations, error) {
	o := &operations{}
	var err error
	o.duration, err = meter.Float64Histogram("drydock.operation.duration", operationBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of operations that have ended, from their start. A sleep lasts until its set is awake."))
	if err != nil {
		return nil, fmt.Errorf("creating the histogram of operations: %w", err)
	}
	o.downtime, err = meter.Float64Histogram("drydock.member.downtime", stopBounds, metric.WithUnit("s"),
		metric.WithDescription("Time from the moment when an operation told a member to stop until the member was ready on its new volumes."))
	if err != nil {
		return nil, fmt.Errorf("creating the histogram of downtimes: %w", err)
	}
	o.wake, err = meter.Float64Histogram("drydock.wake.duration", stopBounds, metric.WithUnit("s"),
		metric.WithDescription("Time from the moment when a sleeping set began to wake until it was ready."))
	if err != nil {
		return nil, fmt.Errorf("creating the histogram of wake-ups: %w", err)
	}
	o.copied, err = meter.Int64Counter("drydock.copied", metric.WithUnit("By"),
		metric.WithDescription("Bytes of the copies that were verified. A copy that is repeated counts again."))
	if err != nil {
		return nil, fmt.Errorf("creating the counter of copied bytes: %w", err)
	}
	return o, nil
}

// RecordOperation records an operation that has ended in the phase after so many seconds.
func (h *Invocation) RecordOperation(ctx context.Context, kind, phase string, seconds float64) {
	if h != nil {
		h.telemetry.operations.duration.Record(ctx, seconds, metric.WithAttributes(kindKey.String(kind), phaseKey.String(phase)))
	}
}

// RecordDowntime records how long an operation of the kind has stopped a member.
func (h *Invocation) RecordDowntime(ctx context.Context, kind string, seconds float64) {
	if h != nil {
		h.telemetry.operations.downtime.Record(ctx, seconds, metric.WithAttributes(kindKey.String(kind)))
	}
}

// RecordWake records how long a set took to wake.
func (h *Invocation) RecordWake(ctx context.Context, seconds float64) {
	if h != nil {
		h.telemetry.operations.wake.Record(ctx, seconds)
	}
}

// CountCopied counts the bytes of a verified copy.
func (h *Invocation) CountCopied(ctx context.Context, bytes int64) {
	if h != nil {
		h.telemetry.operations.copied.Add(ctx, bytes)
	}
}
