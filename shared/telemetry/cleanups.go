package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// maxSets bounds the StatefulSets that are told apart: whoever may make sets chooses their names. Each has two series of a
// metric, which stays below the 2000 at which the SDK would drop the attributes of all that come later.
const maxSets = 900

// otherSet stands for every StatefulSet beyond maxSets.
const otherSet = "other"

const (
	stateKey  = attribute.Key("drydock.state")
	resultKey = attribute.Key("drydock.result")
)

// cleanupBounds are for pods of a user's own, which take seconds or hours.
var cleanupBounds = metric.WithExplicitBucketBoundaries(1, 5, 15, 60, 300, 900, 3600, 14400, 86400)

// cleanups measures what becomes of the ordinals that scale-downs leave behind.
type cleanups struct {
	finished metric.Int64Counter
	duration metric.Float64Histogram

	mu    sync.Mutex
	left  map[setName]ordinals // what the gauge shows
	named map[setName]bool     // the sets that counter and histogram tell apart
}

type setName struct{ namespace, name string }

// ordinals are those of one set that are still to be cleaned up.
type ordinals struct{ pending, running int }

func newCleanups(meter metric.Meter) (*cleanups, error) {
	c := &cleanups{left: map[setName]ordinals{}, named: map[setName]bool{}}
	_, err := meter.Int64ObservableGauge("drydock.cleanup.ordinals", metric.WithUnit("{ordinal}"), metric.WithInt64Callback(c.observe),
		metric.WithDescription("Ordinals of a StatefulSet that a scale-down has left behind, as the latest look at it has found them."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for ordinals that are left: %w", err)
	}
	c.finished, err = meter.Int64Counter("drydock.cleanup.finished", metric.WithUnit("{ordinal}"),
		metric.WithDescription("Ordinals whose cleanup has ended."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for cleanups that have ended: %w", err)
	}
	c.duration, err = meter.Float64Histogram("drydock.cleanup.duration", cleanupBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of the cleanup of an ordinal."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for the duration of cleanups: %w", err)
	}
	return c, nil
}

// Cleanups says how many ordinals of the set wait for their cleanup, and of how many it runs. A set that has neither is not
// shown any more.
func (h *Hop) Cleanups(namespace, name string, pending, running int) {
	if h != nil {
		h.telemetry.cleanups.found(setName{namespace, name}, ordinals{pending, running})
	}
}

// Cleaned counts an ordinal of the set whose cleanup has ended. The result is succeeded or failed.
func (h *Hop) Cleaned(ctx context.Context, namespace, name, result string, took time.Duration) {
	if h != nil {
		h.telemetry.cleanups.ended(ctx, setName{namespace, name}, result, took)
	}
}

// found keeps what the gauge shows. Most sets have nothing to clean up, so only those that have count for the bound.
func (c *cleanups) found(set setName, now ordinals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == (ordinals{}) {
		delete(c.left, set)
		return
	}
	if _, shown := c.left[set]; shown || len(c.left) < maxSets {
		c.left[set] = now
	}
}

// observe is called for each page and each export.
func (c *cleanups) observe(_ context.Context, o metric.Int64Observer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for set, now := range c.left {
		o.Observe(int64(now.pending), set.with(stateKey.String("pending")))
		o.Observe(int64(now.running), set.with(stateKey.String("running")))
	}
	return nil
}

func (c *cleanups) ended(ctx context.Context, set setName, result string, took time.Duration) {
	attributes := c.label(set).with(resultKey.String(result))
	c.finished.Add(ctx, 1, attributes)
	c.duration.Record(ctx, took.Seconds(), attributes)
}

// label is the name under which counter and histogram have the set. Their series stay, so the sets that have one stay, too.
func (c *cleanups) label(set setName) setName {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.named[set]:
		return set
	case len(c.named) >= maxSets:
		return setName{set.namespace, otherSet}
	}
	c.named[set] = true
	return set
}

// with are the attributes of a series of the set.
func (s setName) with(of attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(semconv.K8SNamespaceName(s.namespace), semconv.K8SStatefulSetName(s.name), of)
}
