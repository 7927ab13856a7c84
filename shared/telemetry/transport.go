package telemetry

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// Transport measures each call to the Kubernetes API for an event, and gives each write a span below the event's span.
// Reads have no spans, because the first of them find out the event's trace.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip makes the call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	hop := From(r.Context())
	if hop == nil {
		return t.next.RoundTrip(r)
	}
	span := hop.startWrite(r)
	start := time.Now()
	response, err := t.next.RoundTrip(r)
	attributes := []attribute.KeyValue{
		semconv.FaaSName(hop.function), methodAttribute(r.Method), semconv.URLScheme(r.URL.Scheme),
		semconv.URLTemplate(hop.telemetry.templates.of(Template(r.URL.Path))),
	}
	failed := ""
	switch {
	case err != nil:
		failed = "transport"
	case response.StatusCode >= http.StatusBadRequest:
		failed = strconv.Itoa(response.StatusCode)
	}
	if failed != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failed))
	}
	if response != nil {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(response.StatusCode))
	}
	hop.telemetry.requests.Record(r.Context(), time.Since(start).Seconds(), metric.WithAttributes(attributes...))
	if span != nil {
		span.SetAttributes(attributes...)
		if failed != "" {
			span.SetStatus(codes.Error, failed)
		}
		span.End()
	}
	return response, err
}

// startWrite starts the span of a write, or returns nil for a read. The span names the object, but not its contents.
func (h *Invocation) startWrite(r *http.Request) trace.Span {
	if !h.traced() || r.Method == http.MethodGet {
		return nil
	}
	ctx := trace.ContextWithSpan(r.Context(), h.startSpan(r.Context()))
	_, span := h.telemetry.tracer.Start(ctx, r.Method+" "+Template(r.URL.Path), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(semconv.URLFull(r.URL.Scheme+"://"+r.URL.Host+r.URL.Path), semconv.ServerAddress(r.URL.Hostname())))
	return span
}

// Template returns the path of an API call with placeholders for names:
//
//	/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}
func Template(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := 3 // after apis/GROUP/VERSION
	if parts[0] == "api" {
		at = 2
	}
	if len(parts) > at+2 && parts[at] == "namespaces" {
		parts[at+1] = "{namespace}"
		at += 2
	}
	if len(parts) > at+1 {
		parts[at+1] = "{name}"
	}
	if len(parts) > at+3 { // Drydock does not request such paths
		parts = append(parts[:at+3], "{more}")
	}
	return "/" + strings.Join(parts, "/")
}
