package telemetry

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Kept counts the volumes that Drydock keeps from being reclaimed.
type Kept struct {
	// InUse belong to an operation that runs, Retained are old volumes in their window. Orphaned were left by an operation whose set
	// and journal are gone, and have no window yet.
	InUse, Retained, Orphaned int
}

// volumes shows what the latest sweep counted.
type volumes struct {
	mu   sync.Mutex
	kept *Kept // nil before the first sweep of this process
}

func newVolumes(meter metric.Meter) (*volumes, error) {
	v := &volumes{}
	_, err := meter.Int64ObservableGauge("drydock.volumes", metric.WithUnit("{volume}"), metric.WithInt64Callback(v.observe),
		metric.WithDescription("PersistentVolumes that Drydock keeps from being reclaimed, as the latest sweep counted them."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for volumes that are kept: %w", err)
	}
	return v, nil
}

// Volumes stores what a sweep counted.
func (h *Hop) Volumes(kept Kept) {
	if h == nil {
		return
	}
	h.telemetry.volumes.mu.Lock()
	defer h.telemetry.volumes.mu.Unlock()
	h.telemetry.volumes.kept = &kept
}

// observe is called for each page and each export.
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
