package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// growth is the gauge of the templates whose volumes are nearly full and may not grow.
type growth struct {
	mu    sync.Mutex
	stuck map[setName]stuck
}

// stuck is how many templates of a set do not grow, and when that was found.
type stuck struct {
	templates int
	at        time.Time
}

// stuckFor is how long a set is shown after it was looked at. A set that is deleted, or that another instance looks at, is not looked at again.
const stuckFor = time.Hour

func newGrowth(meter metric.Meter) (*growth, error) {
	g := &growth{stuck: map[setName]stuck{}}
	_, err := meter.Int64ObservableGauge("drydock.growth.stuck", metric.WithUnit("{template}"), metric.WithInt64Callback(g.observe),
		metric.WithDescription("Templates of a StatefulSet with a volume that is nearly full and does not grow: it is at its limit, or blocked."))
	if err != nil {
		return nil, fmt.Errorf("making the instrument for volumes that do not grow: %w", err)
	}
	return g, nil
}

// Growth sets the gauge for the set. It removes a set with no templates.
func (h *Hop) Growth(namespace, name string, templates int) {
	if h == nil {
		return
	}
	g, set := h.telemetry.growth, setName{namespace, name}
	g.mu.Lock()
	defer g.mu.Unlock()
	if templates == 0 {
		delete(g.stuck, set)
	} else if _, shown := g.stuck[set]; shown || len(g.stuck) < maxSets {
		g.stuck[set] = stuck{templates, time.Now()}
	}
}

// observe reports the gauge to each scrape and each export.
func (g *growth) observe(_ context.Context, o metric.Int64Observer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for set, s := range g.stuck {
		if time.Since(s.at) > stuckFor {
			delete(g.stuck, set)
			continue
		}
		o.Observe(int64(s.templates), metric.WithAttributes(semconv.K8SNamespaceName(set.namespace), semconv.K8SStatefulSetName(set.name)))
	}
	return nil
}
