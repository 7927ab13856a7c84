package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// bounds of every request's duration are those of the semantic conventions for HTTP, which Knative uses for all of its
// histograms, too (knative.dev/eventing pkg/broker/filter/filter_handler.go), so that one can be laid over the other.
var bounds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// Attributes that are no semantic convention.
const (
	// eventTypeKey has the name that Knative gives it on its metrics (pkg/observability/key.go), not the one of the
	// semantic conventions for spans, cloudevents.event_type.
	eventTypeKey = attribute.Key("cloudevents.type")

	outcomeKey    = attribute.Key("drydock.outcome")
	planKindKey   = attribute.Key("drydock.plan.kind")
	planReasonKey = attribute.Key("drydock.plan.reason")
	operationKey  = attribute.Key("drydock.operation")
)

// maxTypes bounds the event types that are told apart: whoever may send events chooses their types.
const maxTypes = 64

// otherType stands for every type beyond maxTypes, noType for a request without a valid event.
const (
	otherType = "other"
	noType    = "none"
)

func (t *Telemetry) instrument(meter metric.Meter) error {
	var err error
	t.handled, err = meter.Float64Histogram("http.server.request.duration", bounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP server requests: of the events that a function answered."))
	if err != nil {
		return fmt.Errorf("making the instrument for events: %w", err)
	}
	t.requests, err = meter.Float64Histogram("http.client.request.duration", bounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP client requests: of the calls to the Kubernetes API."))
	if err != nil {
		return fmt.Errorf("making the instrument for API calls: %w", err)
	}
	if t.cleanups, err = newCleanups(meter); err != nil {
		return err
	}
	if t.volumes, err = newVolumes(meter); err != nil {
		return err
	}
	t.growth, err = newGrowth(meter)
	return err
}

// Result is how an event ended.
type Result struct {
	// Code is the HTTP status of the answer, Outcome what the function made of the event in a word.
	Code    int
	Outcome string
	Err     error
}

// Answered counts an event of the function. The type is empty for a request that held no event.
func (t *Telemetry) Answered(ctx context.Context, function, method, eventType string, r Result, took time.Duration) {
	attributes := []attribute.KeyValue{
		semconv.FaaSName(function), eventTypeKey.String(t.typeLabel(eventType)), outcomeKey.String(r.Outcome),
		methodOf(method), semconv.URLScheme("http"), semconv.HTTPRoute("/"), semconv.HTTPResponseStatusCode(r.Code),
	}
	if r.Code >= http.StatusInternalServerError {
		attributes = append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(r.Code)))
	}
	t.handled.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
}

func (t *Telemetry) typeLabel(eventType string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case eventType == "":
		return noType
	case t.types[eventType]:
		return eventType
	case len(t.types) >= maxTypes:
		return otherType
	}
	t.types[eventType] = true
	return eventType
}

// methodOf keeps methods that nobody has heard of apart from the others, as the semantic conventions ask.
func methodOf(method string) attribute.KeyValue {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return semconv.HTTPRequestMethodKey.String(method)
	}
	return semconv.HTTPRequestMethodOther
}
