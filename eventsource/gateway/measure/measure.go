// Package measure provides the metrics of the wake gateway, under the names that dashboards for Sablier use
// (sablierapp/sablier pkg/metrics/prom.go and collector.go).
package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxInstances limits the StatefulSets with their own series, because tenants choose the names.
const maxInstances = 500

// bucketBounds are the bucket boundaries for wake-ups, from 100 ms to 5 min.
var bucketBounds = metric.WithExplicitBucketBoundaries(0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)

const (
	strategyKey = attribute.Key("strategy")
	targetKey   = attribute.Key("target")
	instanceKey = attribute.Key("instance")
	groupKey    = attribute.Key("group")
)

// Instance is the state of a StatefulSet at a request.
type Instance struct {
	// Name is NAMESPACE/NAME. Group may be empty.
	Name, Group string
	Ready       bool
	// Until is the end of its session, or zero.
	Until time.Time
}

// Meters are the gateway's instruments. A nil pointer measures nothing.
type Meters struct {
	requests metric.Int64Counter
	wakes    metric.Float64Histogram

	mu   sync.Mutex
	seen map[string]state
}

type state struct {
	Instance
	since time.Time // start of the wait until it is ready, or zero if it is ready
}

// New returns the instruments.
func New(meter metric.Meter) (*Meters, error) {
	m := &Meters{seen: map[string]state{}}
	var err error
	if m.requests, err = meter.Int64Counter("sablier.session.requests",
		metric.WithDescription("Requests for a session, by strategy and target.")); err != nil {
		return nil, fmt.Errorf("making the instrument for requests: %w", err)
	}
	m.wakes, err = meter.Float64Histogram("sablier.instance.ready.duration", bucketBounds, metric.WithUnit("s"),
		metric.WithDescription("Time from the first request that found the StatefulSet not ready to the first that found it ready."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for wake-ups: %w", err)
	}
	return m, m.gauges(meter)
}

func (m *Meters) gauges(meter metric.Meter) error {
	expires, err := meter.Float64ObservableGauge("sablier.session.expires_at_timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time at which the StatefulSet's session ends, as this gateway has seen it."))
	if err != nil {
		return fmt.Errorf("making the instrument for sessions: %w", err)
	}
	active, err := meter.Int64ObservableGauge("sablier.group.active_instances",
		metric.WithDescription("StatefulSets of the group with a session."))
	if err != nil {
		return fmt.Errorf("making the instrument for groups: %w", err)
	}
	locked, err := meter.Int64ObservableGauge("sablier.group.locked",
		metric.WithDescription("Whether a StatefulSet of the group has a session."))
	if err != nil {
		return fmt.Errorf("making the instrument for groups: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		sessions, groups := m.current(time.Now())
		for _, s := range sessions {
			o.ObserveFloat64(expires, float64(s.Until.Unix()), metric.WithAttributes(instanceKey.String(s.Name), groupKey.String(s.Group)))
		}
		for group, n := range groups {
			o.ObserveInt64(active, n, metric.WithAttributes(groupKey.String(group)))
			o.ObserveInt64(locked, min(n, 1), metric.WithAttributes(groupKey.String(group)))
		}
		return nil
	}, expires, active, locked)
	if err != nil {
		return fmt.Errorf("making the gauges of sessions: %w", err)
	}
	return nil
}

// current returns the sessions at the time, and the number of sessions by group. It removes sessions that have ended.
func (m *Meters) current(now time.Time) ([]Instance, map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sessions []Instance
	groups := map[string]int64{}
	for name, s := range m.seen {
		if s.Group != "" {
			groups[s.Group] += 0 // a group whose sessions have ended is reported once more
		}
		if !now.Before(s.Until) {
			delete(m.seen, name)
			continue
		}
		sessions = append(sessions, s.Instance)
		if s.Group != "" {
			groups[s.Group]++
		}
	}
	return sessions, groups
}

// Request counts a request for names or for a group.
func (m *Meters) Request(ctx context.Context, strategy, target string) {
	if m != nil {
		m.requests.Add(ctx, 1, metric.WithAttributes(strategyKey.String(strategy), targetKey.String(target)))
	}
}

// Record records the state of a StatefulSet at the time. If there are too many StatefulSets, further ones are ignored.
func (m *Meters) Record(ctx context.Context, now time.Time, found Instance) {
	if m == nil {
		return
	}
	m.mu.Lock()
	before, known := m.seen[found.Name]
	next := state{Instance: found, since: before.since}
	switch {
	case found.Ready:
		next.since = time.Time{}
	case before.since.IsZero():
		next.since = now
	}
	if known || len(m.seen) < maxInstances {
		m.seen[found.Name] = next
	}
	m.mu.Unlock()
	if found.Ready && !before.since.IsZero() {
		m.wakes.Record(ctx, now.Sub(before.since).Seconds(), metric.WithAttributes(instanceKey.String(found.Name)))
	}
}
