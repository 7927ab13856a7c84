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

// growth is the gauge of templates whose volumes are nearly full but may not grow.
type growth struct {
	mu   sync.Mutex
	sets map[setKey]stuckSet
}

// stuckSet is the number of templates of a set that do not grow, and the time of that observation.
type stuckSet struct {
	templates int
	at        time.Time
}

// stuckRetention is how long a set is shown after its last observation. If a set is deleted, or another instance
// observes it, there is no later observation here.
const stuckRetention = time.Hour

func newGrowth(meter metric.Meter) (*growth, error) {
	g := &growth{sets: map[setKey]stuckSet{}}
	_, err := meter.Int64ObservableGauge("drydock.growth.stuck", metric.WithUnit("{template}"), metric.WithInt64Callback(g.observe),
		metric.WithDescription("Templates of a StatefulSet with a nearly full volume that does not grow because it is at its limit or blocked."))
	if err != nil {
		return nil, fmt.Errorf("creating the gauge of volumes that do not grow: %w", err)
	}
	return g, nil
}

// SetStuckTemplates sets the gauge for the set. With no templates it removes the set.
func (h *Invocation) SetStuckTemplates(namespace, name string, templates int) {
	if h == nil {
		return
	}
	g, set := h.telemetry.growth, setKey{namespace, name}
	g.mu.Lock()
	defer g.mu.Unlock()
	if templates == 0 {
		delete(g.sets, set)
	} else if _, shown := g.sets[set]; shown || len(g.sets) < maxSets {
		g.sets[set] = stuckSet{templates, time.Now()}
	}
}

// observe reports the gauge to each scrape and each export.
func (g *growth) observe(_ context.Context, o metric.Int64Observer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for set, s := range g.sets {
		if time.Since(s.at) > stuckRetention {
			delete(g.sets, set)
			continue
		}
		o.Observe(int64(s.templates),
			metric.WithAttributes(semconv.K8SNamespaceName(set.namespace), semconv.K8SStatefulSetName(set.name)))
	}
	return nil
}

// ProtectedVolumes counts the volumes that Drydock protects from being reclaimed.
type ProtectedVolumes struct {
	// InUse volumes belong to a running operation. Retained volumes are old volumes within their retention. Orphaned volumes
	// belong to an operation whose set and journal are gone, and have no retention yet.
	InUse, Retained, Orphaned int
}

// volumes shows the counts of the latest sweep.
type volumes struct {
	mu   sync.Mutex
	kept *ProtectedVolumes // nil before the first sweep of this process
}

func newVolumes(meter metric.Meter) (*volumes, error) {
	v := &volumes{}
	_, err := meter.Int64ObservableGauge("drydock.volumes", metric.WithUnit("{volume}"), metric.WithInt64Callback(v.observe),
		metric.WithDescription("PersistentVolumes that Drydock protects from being reclaimed, as counted by the latest sweep."))
	if err != nil {
		return nil, fmt.Errorf("creating the gauge of volumes: %w", err)
	}
	return v, nil
}

// SetProtectedVolumes stores the counts of a sweep.
func (h *Invocation) SetProtectedVolumes(kept ProtectedVolumes) {
	if h == nil {
		return
	}
	h.telemetry.volumes.mu.Lock()
	defer h.telemetry.volumes.mu.Unlock()
	h.telemetry.volumes.kept = &kept
}

// observe reports the gauge to each scrape and each export.
func (v *volumes) observe(_ context.Context, o metric.Int64Observer) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kept == nil {
		return nil
	}
	for state, n := range map[string]int{"in_use": v.kept.InUse, "retained": v.kept.Retained, "orphaned": v.kept.Orphaned} {
		o.Observe(int64(n), metric.WithAttributes(stateKey.String(state)))
	}
	return nil
}
