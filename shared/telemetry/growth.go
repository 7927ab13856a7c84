package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

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
