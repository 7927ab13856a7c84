package serve

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"drydock.dev/shared/api"
)

// maxTypes bounds the label "type": whoever may send events chooses their types.
const maxTypes = 64

// otherType stands for every type beyond maxTypes, noType for a request without a valid event.
const (
	otherType = "other"
	noType    = "none"
)

// Metrics counts the events of the functions of one process.
type Metrics struct {
	events   *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu    sync.Mutex
	types map[string]bool
}

// NewMetrics registers the metrics. Two sets cannot share a registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		types: map[string]bool{},
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drydock_events_total",
			Help: "Events that a function answered, by HTTP status.",
		}, []string{"function", "type", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drydock_event_duration_seconds",
			Help:    "How long a function worked on an event.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 25},
		}, []string{"function"}),
	}
	registry.MustRegister(m.events, m.duration)
	return m
}

func (m *Metrics) observe(function api.Function, eventType string, code int, took time.Duration) {
	m.events.WithLabelValues(string(function), m.typeLabel(eventType), strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(string(function)).Observe(took.Seconds())
}

func (m *Metrics) typeLabel(eventType string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case eventType == "":
		return noType
	case m.types[eventType]:
		return eventType
	case len(m.types) >= maxTypes:
		return otherType
	}
	m.types[eventType] = true
	return eventType
}
