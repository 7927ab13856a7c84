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
	endpoint, timeout, err := traces.read()
	if err != nil {
		return nil, err
	}
	return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithTimeout(timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: timeout,
		}))
}

// newMetricExporter returns the exporter of metrics over OTLP.
func newMetricExporter() (sdkmetric.Exporter, error) {
	if _, err := oneOf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative"); err != nil {
		return nil, err
	}
	endpoint, timeout, err := metrics.read()
	if err != nil {
		return nil, err
	}
	return otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(endpoint), otlpmetrichttp.WithTimeout(timeout),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: timeout,
		}))
}

// read returns where and for how long the signal is sent. The exporters read headers, compression and certificates themselves, but ignore
// values that they cannot read: those are an error here.
func (s signal) read() (endpoint string, timeout time.Duration, err error) {
	if _, err := s.oneOf("PROTOCOL", "http/protobuf"); err != nil {
		return "", 0, err
	}
	if _, err := s.oneOf("COMPRESSION", "none", "gzip"); err != nil {
		return "", 0, err
	}
	if err := s.checkHeaders(); err != nil {
		return "", 0, err
	}
	if err := s.checkCertificates(); err != nil {
		return "", 0, err
	}
	if timeout, err = s.timeout(); err != nil {
		return "", 0, err
	}
	endpoint, err = s.endpoint()
	return endpoint, timeout, err
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
func (s signal) endpoint() (string, error) {
	text := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + s.name + "_ENDPOINT"))
	if text == "" {
		text = strings.TrimSuffix(cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), defaultEndpoint), "/") + s.path
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf(
			"OTEL_EXPORTER_OTLP_ENDPOINT is no URL (for %s: %q). Set a URL such as %s",
			strings.ToLower(s.name),
			text,
			defaultEndpoint,
		)
	}
	return text, nil
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

// checkCertificates refuses files that cannot be read or have no certificate.
func (s signal) checkCertificates() error {
	if file := s.get("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", file)
		}
	}
	certificate, key := s.get("CLIENT_CERTIFICATE"), s.get("CLIENT_KEY")
	if certificate == "" && key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("reading OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
	}
	return nil
}
