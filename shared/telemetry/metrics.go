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

// requestBounds are the bounds of the semantic conventions for HTTP. Knative uses them for its histograms, too
// (knative.dev/eventing pkg/broker/filter/filter_handler.go), so the histograms can be compared.
var requestBounds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// Attributes outside of the semantic conventions.
const (
	// eventTypeKey is Knative's name in its metrics (pkg/observability/key.go). The semantic conventions for spans use
	// cloudevents.event_type instead.
	eventTypeKey = attribute.Key("cloudevents.type")

	outcomeKey    = attribute.Key("drydock.outcome")
	planKindKey   = attribute.Key("drydock.plan.kind")
	planReasonKey = attribute.Key("drydock.plan.reason")
	operationKey  = attribute.Key("drydock.operation")
)

const (
	// maxTypes limits the number of event types with separate series, because senders choose their types.
	maxTypes = 64
	// maxTemplates limits the number of paths with separate series. A path contains the version of a set's owner, which the author of the
	// set chooses.
	maxTemplates = 300
)

// noType stands for the type of a request without a valid event.
const noType = "none"

func (t *Telemetry) instrument(meter metric.Meter) error {
	var err error
	t.handled, err = meter.Float64Histogram("http.server.request.duration", requestBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP server requests: the events that a function answered."))
	if err != nil {
		return fmt.Errorf("creating the histogram of events: %w", err)
	}
	t.requests, err = meter.Float64Histogram("http.client.request.duration", requestBounds, metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP client requests: the calls to the Kubernetes API."))
	if err != nil {
		return fmt.Errorf("creating the histogram of API calls: %w", err)
	}
	if t.cleanups, err = newCleanups(meter); err != nil {
		return err
	}
	if t.volumes, err = newVolumes(meter); err != nil {
		return err
	}
	if t.growth, err = newGrowth(meter); err != nil {
		return err
	}
	if t.operations, err = newOperations(meter); err != nil {
		return err
	}
	t.sweep, err = newSweep(meter)
	return err
}

// Result is the result of handling an event.
type Result struct {
	// Code is the HTTP status of the answer. Outcome is the result in one word.
	Code    int
	Outcome string
	Err     error
}

// RecordAnswer records an event of the function. The type is "" for a request without a valid event.
func (t *Telemetry) RecordAnswer(ctx context.Context, function, method, eventType string, r Result, took time.Duration) {
	attributes := []attribute.KeyValue{
		semconv.FaaSName(function), eventTypeKey.String(t.typeLabel(eventType)), outcomeKey.String(r.Outcome),
		methodAttribute(method), semconv.URLScheme("http"), semconv.HTTPRoute("/"), semconv.HTTPResponseStatusCode(r.Code),
	}
	if r.Code >= http.StatusInternalServerError {
		attributes = append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(r.Code)))
	}
	t.handled.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
}

func (t *Telemetry) typeLabel(eventType string) string {
	if eventType == "" {
		return noType
	}
	return t.types.of(eventType)
}

// methodAttribute returns the method, or a common value for unknown methods, as the semantic conventions demand.
func methodAttribute(method string) attribute.KeyValue {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return semconv.HTTPRequestMethodKey.String(method)
	}
	return semconv.HTTPRequestMethodOther
}
