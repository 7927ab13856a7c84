package export

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The specification's defaults (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). The Go exporters would use https.
const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
)

// Retries of one export start after firstPause and end with the exporter's timeout: a collector that is away holds up no function.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 3 * time.Second
)

// signal is a kind of telemetry with a path of its own at the collector.
type signal struct{ name, path string }

var (
	traces  = signal{"TRACES", "/v1/traces"}
	metrics = signal{"METRICS", "/v1/metrics"}
)

// newSpanExporter returns the exporter of spans over OTLP.
func newSpanExporter() (sdktrace.SpanExporter, error) {
	c, err := traces.collector()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(c.endpoint.String()),
		otlptracehttp.WithHTTPClient(c.client()), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: c.timeout,
		}))
	return limitedSpans{exporter, c.timeout}, err
}

// limitedSpans ends an export with all its tries at the timeout, as OTLP's specification demands. The exporter limits each try only.
type limitedSpans struct {
	sdktrace.SpanExporter
	timeout time.Duration
}

// ExportSpans exports the spans within the timeout.
func (e limitedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return e.SpanExporter.ExportSpans(ctx, spans)
}

// limitedMetrics does the same for metrics.
type limitedMetrics struct {
	sdkmetric.Exporter
	timeout time.Duration
}

// Export exports the measurements within the timeout.
func (e limitedMetrics) Export(ctx context.Context, measured *metricdata.ResourceMetrics) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return e.Exporter.Export(ctx, measured)
}

// newMetricExporter returns the exporter of metrics over OTLP.
func newMetricExporter() (sdkmetric.Exporter, error) {
	if _, err := oneOf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative"); err != nil {
		return nil, err
	}
	c, err := metrics.collector()
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(c.endpoint.String()),
		otlpmetrichttp.WithHTTPClient(c.client()), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: c.timeout,
		}))
	return limitedMetrics{exporter, c.timeout}, err
}

// collector reads where and how the signal is sent. The exporters read headers and compression themselves, but ignore values that they
// cannot read: those are an error here.
func (s signal) collector() (collector, error) {
	if _, err := s.oneOf("PROTOCOL", "http/protobuf"); err != nil {
		return collector{}, err
	}
	if _, err := s.oneOf("COMPRESSION", "none", "gzip"); err != nil {
		return collector{}, err
	}
	if err := s.checkHeaders(); err != nil {
		return collector{}, err
	}
	certificates, err := s.certificates()
	if err != nil {
		return collector{}, err
	}
	timeout, err := s.timeout()
	if err != nil {
		return collector{}, err
	}
	endpoint, err := s.endpoint()
	return collector{endpoint: endpoint, certificates: certificates, timeout: timeout}, err
}

// get returns a variable of OTLP: the signal's own, or the one for all signals.
func (s signal) get(name string) string {
	return strings.TrimSpace(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+s.name+"_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
}

// oneOf returns a variable of OTLP that has one of the values; the first is the default.
func (s signal) oneOf(name string, values ...string) (string, error) {
	own := "OTEL_EXPORTER_OTLP_" + s.name + "_" + name
	if os.Getenv(own) != "" {
		return oneOf(own, values...)
	}
	return oneOf("OTEL_EXPORTER_OTLP_"+name, values...)
}

// endpoint returns the signal's own endpoint as it is written, or the common one with the signal's path.
func (s signal) endpoint() (*url.URL, error) {
	text := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + s.name + "_ENDPOINT"))
	if text == "" {
		text = strings.TrimSuffix(cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), defaultEndpoint), "/") + s.path
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is no URL (for %s: %q). Set a URL such as %s", strings.ToLower(s.name),
			withoutUser(text), defaultEndpoint)
	}
	return u, nil
}

// withoutUser returns an endpoint that may not be a URL for a message. A user and a password may come before its last @.
func withoutUser(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "..." + text[at:]
	}
	return text
}

func (s signal) timeout() (time.Duration, error) {
	text := s.get("TIMEOUT")
	if text == "" {
		return defaultTimeout, nil
	}
	milliseconds, err := strconv.Atoi(text)
	if err != nil || milliseconds <= 0 {
		return 0, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%q is no time. Set milliseconds", text)
	}
	return time.Duration(milliseconds) * time.Millisecond, nil
}

// checkHeaders refuses headers that are not key=value pairs with percent-encoded values. They are secrets: an error has only the number of
// the pair.
func (s signal) checkHeaders() error {
	for i, pair := range strings.Split(s.get("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(strings.TrimSpace(value)); !ok || strings.TrimSpace(key) == "" || err != nil {
			return fmt.Errorf("pair %d of OTEL_EXPORTER_OTLP_HEADERS cannot be read. Write key=value, with percent-encoded values", i+1)
		}
	}
	return nil
}

// certificates returns the certificates that the environment names, or nil for those of the system.
func (s signal) certificates() (*tls.Config, error) {
	authorities, certificate, key := s.get("CERTIFICATE"), s.get("CLIENT_CERTIFICATE"), s.get("CLIENT_KEY")
	if authorities == "" && certificate == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pem, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("reading OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", authorities)
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("reading OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
