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

// maxSets limits the number of StatefulSets with separate series, because users choose their names. Each has two series
// of a metric. That stays below 2000, where the SDK would drop the attributes of later series.
const maxSets = 900

// otherSet stands for every StatefulSet beyond maxSets.
const otherSet = "other"

const (
	stateKey  = attribute.Key("drydock.state")
	resultKey = attribute.Key("drydock.result")
)

// cleanupBounds suit users' pods, which take seconds or hours.
var cleanupBounds = metric.WithExplicitBucketBoundaries(1, 5, 15, 60, 300, 900, 3600, 14400, 86400)

// cleanups measures the cleanup of the ordinals that a scale-down leaves behind.
type cleanups struct {
	finished metric.Int64Counter
	duration metric.Float64Histogram

	mu        sync.Mutex
	remaining map[setKey]ordinals // values of the gauge
	counted   map[setKey]bool     // the sets with separate series of counter and histogram
}

type setKey struct{ namespace, name string }

// ordinals counts the ordinals of one set that are not cleaned up yet.
type ordinals struct{ pending, running int }

func newCleanups(meter metric.Meter) (*cleanups, error) {
	c := &cleanups{remaining: map[setKey]ordinals{}, counted: map[setKey]bool{}}
	_, err := meter.Int64ObservableGauge("drydock.cleanup.ordinals", metric.WithUnit("{ordinal}"), metric.WithInt64Callback(c.observe),
		metric.WithDescription("Ordinals of a StatefulSet that a scale-down has left behind, as last observed."))
	if err != nil {
		return nil, fmt.Errorf("creating the gauge of remaining ordinals: %w", err)
	}
	c.finished, err = meter.Int64Counter("drydock.cleanup.finished", metric.WithUnit("{ordinal}"),
		metric.WithDescription("Ordinals whose cleanup has ended."))
	if err != nil {
		return nil, fmt.Errorf("creating the counter of finished cleanups: %w", err)
	}
	c.duration, err = meter.Float64Histogram("drydock.cleanup.duration", cleanupBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of the cleanup of an ordinal."))
	if err != nil {
		return nil, fmt.Errorf("creating the histogram of cleanup durations: %w", err)
	}
	return c, nil
}

// SetRemainingCleanups sets how many ordinals of the set wait for their cleanup, and how many are being cleaned up. A set without
// either is removed from the gauge.
func (h *Invocation) SetRemainingCleanups(namespace, name string, pending, running int) {
	if h != nil {
		h.telemetry.cleanups.setGauge(setKey{namespace, name}, ordinals{pending, running})
	}
}

// CountFinishedCleanup counts an ordinal whose cleanup has ended. The result is succeeded or failed.
func (h *Invocation) CountFinishedCleanup(ctx context.Context, namespace, name, result string, took time.Duration) {
	if h != nil {
		h.telemetry.cleanups.countEnded(ctx, setKey{namespace, name}, result, took)
	}
}

// setGauge stores a set's values. Most sets have nothing to clean up, so only sets with remaining ordinals count towards
// the limit.
func (c *cleanups) setGauge(set setKey, now ordinals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == (ordinals{}) {
		delete(c.remaining, set)
		return
	}
	if _, shown := c.remaining[set]; shown || len(c.remaining) < maxSets {
		c.remaining[set] = now
	}
}

// observe reports the gauge to each scrape and each export.
func (c *cleanups) observe(_ context.Context, o metric.Int64Observer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for set, now := range c.remaining {
		o.Observe(int64(now.pending), set.attributes(stateKey.String("pending")))
		o.Observe(int64(now.running), set.attributes(stateKey.String("running")))
	}
	return nil
}

func (c *cleanups) countEnded(ctx context.Context, set setKey, result string, took time.Duration) {
	attributes := c.seriesOf(set).attributes(resultKey.String(result))
	c.finished.Add(ctx, 1, attributes)
	c.duration.Record(ctx, took.Seconds(), attributes)
}

// seriesOf returns the set under which counter and histogram record. Series are never removed, so a set keeps its
// series.
func (c *cleanups) seriesOf(set setKey) setKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.counted[set]:
		return set
	case len(c.counted) >= maxSets:
		return setKey{set.namespace, otherSet}
	}
	c.counted[set] = true
	return set
}

// attributes returns the attributes of a series of the set.
func (s setKey) attributes(of attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(semconv.K8SNamespaceName(s.namespace), semconv.K8SStatefulSetName(s.name), of)
}
