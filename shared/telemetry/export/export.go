// Package export provides OpenTelemetry's SDK for package telemetry, configured by the standard environment variables
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/), with these defaults:
//
//	OTEL_TRACES_EXPORTER    none: no provider, no goroutine, nothing on the wire
//	OTEL_METRICS_EXPORTER   prometheus: the endpoint that the caller serves
//
// An unknown value fails the start, with a message that names the known values. No connection is opened before there is data to send.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/text"
)

// Help describes these variables in the help of a command.
const Help = `Traces and metrics go where OpenTelemetry's standard variables say: OTEL_TRACES_EXPORTER (none, otlp, console),
OTEL_METRICS_EXPORTER (prometheus, otlp, none), OTEL_EXPORTER_OTLP_ENDPOINT and the others.`

const (
	// batchDelay is how long spans wait for a batch. The SDK's 5 s suit long-running processes. A function that is killed
	// loses at most the spans of this time.
	batchDelay = time.Second

	// flushTime is the time limit for the last export: a missing collector must not delay the shutdown.
	flushTime = 5 * time.Second

	// maxError limits an error in the log, in bytes: it contains the collector's answer.
	maxError = 1 << 10
)

// Export is a process's telemetry with its exporters.
type Export struct {
	*telemetry.Telemetry
	// Meter is for the measurements of the process itself.
	Meter metric.Meter
	// Page serves the metrics to Prometheus. It is nil if they are exported in another way.
	Page http.Handler

	stop []func(context.Context) error
	log  *slog.Logger
}

// Setup reads the environment. The service is the name for the case that the environment sets none: drydock-FUNCTION.
func Setup(service string, log *slog.Logger) (*Export, error) {
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	e := &Export{Meter: noop.NewMeterProvider().Meter(telemetry.ScopeName), log: log}
	if s.traces == exporterNone && s.metrics == exporterNone {
		e.Telemetry = telemetry.Off()
		return e, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry was lost", "error", text.Line(err.Error(), maxError)) }))
	from, err := resourceOf(service)
	if err != nil {
		return nil, err
	}
	tracer, err := e.tracer(s, from)
	if err != nil {
		return nil, err
	}
	if err := e.meter(s, from); err != nil {
		return nil, err
	}
	e.Telemetry, err = telemetry.New(e.Meter, tracer)
	return e, err
}

// resourceOf returns the resource of all telemetry. The environment takes precedence.
func resourceOf(service string) (*resource.Resource, error) {
	from, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(), resource.WithAttributes(identity(service)...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME: %w", err)
	}
	return from, nil
}

// tracer creates the provider of spans. It returns nil if tracing is off.
func (e *Export) tracer(s settings, from *resource.Resource) (trace.Tracer, error) {
	var exporter sdktrace.SpanExporter
	var err error
	switch s.traces {
	case exporterNone:
		return nil, nil
	case exporterConsole:
		exporter, err = stdouttrace.New(stdouttrace.WithWriter(os.Stdout))
	case exporterOTLP:
		exporter, err = newSpanExporter()
	}
	if err != nil {
		return nil, err
	}
	var options []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		options = append(options, sdktrace.WithBatchTimeout(batchDelay))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(from), sdktrace.WithBatcher(exporter, options...))
	e.stop = append(e.stop, provider.Shutdown)
	return provider.Tracer(telemetry.ScopeName), nil
}

// meter creates the provider of measurements.
func (e *Export) meter(s settings, from *resource.Resource) error {
	var reader sdkmetric.Reader
	switch s.metrics {
	case exporterNone:
		return nil
	case exporterPrometheus:
		exporter, page, err := newPage()
		if err != nil {
			return err
		}
		reader, e.Page = exporter, page
	case exporterOTLP:
		exporter, err := newMetricExporter()
		if err != nil {
			return err
		}
		reader = sdkmetric.NewPeriodicReader(exporter)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(from), sdkmetric.WithReader(reader),
		sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter)) // no exemplars: a page without OpenMetrics has none
	e.stop = append(e.stop, provider.Shutdown)
	e.Meter = provider.Meter(telemetry.ScopeName)
	if err := runtime.Start(runtime.WithMeterProvider(provider)); err != nil {
		return fmt.Errorf("measuring Go's runtime: %w", err)
	}
	return nil
}

// Shutdown exports the remaining telemetry and ends the exporters.
func (e *Export) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	var failed error
	for _, stop := range e.stop {
		failed = errors.Join(failed, stop(ctx))
	}
	if failed != nil {
		e.log.Warn("telemetry was lost at the end", "error", text.Line(failed.Error(), maxError))
	}
}
