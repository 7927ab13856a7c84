package telemetry

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

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
