package export

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// The specification's defaults (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
)

// signal is a kind of telemetry with a separate path on the collector.
type signal struct{ name, path string }

var (
	traces  = signal{"TRACES", "/v1/traces"}
	metrics = signal{"METRICS", "/v1/metrics"}
)

// get reads a variable of OTLP: the signal's variable, or else the variable for all signals.
func (s signal) get(name string) string {
	return strings.TrimSpace(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+s.name+"_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name)))
}

// oneOf is get for a variable that must have one of the values.
func (s signal) oneOf(name string, values ...string) (string, error) {
	own := "OTEL_EXPORTER_OTLP_" + s.name + "_" + name
	if os.Getenv(own) != "" {
		return oneOf(own, values...)
	}
	return oneOf("OTEL_EXPORTER_OTLP_"+name, values...)
}

// newCollector reads how a signal is sent.
func newCollector(s signal) (*collector, error) {
	if _, err := s.oneOf("PROTOCOL", "http/protobuf"); err != nil {
		return nil, err
	}
	compression, err := s.oneOf("COMPRESSION", "none", "gzip")
	if err != nil {
		return nil, err
	}
	c := &collector{zip: compression == "gzip", timeout: defaultTimeout}
	if c.url, err = s.endpoint(); err != nil {
		return nil, err
	}
	if c.header, err = s.headers(); err != nil {
		return nil, err
	}
	if text := s.get("TIMEOUT"); text != "" {
		milliseconds, err := strconv.Atoi(text)
		if err != nil || milliseconds <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%q is no time; set milliseconds", text)
		}
		c.timeout = time.Duration(milliseconds) * time.Millisecond
	}
	secure, err := s.tls()
	if err != nil {
		return nil, err
	}
	c.client = &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
	}}
	return c, nil
}

// endpoint returns the signal's endpoint unchanged, or else the common endpoint with the signal's path.
func (s signal) endpoint() (string, error) {
	text := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + s.name + "_ENDPOINT"))
	if text == "" {
		text = strings.TrimSuffix(cmp.Or(strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), defaultEndpoint), "/") + s.path
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is no URL (for %s: %q); set one as %s", strings.ToLower(s.name), text, defaultEndpoint)
	}
	return text, nil
}

// headers returns key=value pairs with percent-encoded values. They are secrets, so an error does not contain them.
func (s signal) headers() (http.Header, error) {
	found := http.Header{}
	for i, pair := range strings.Split(s.get("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			return nil, fmt.Errorf("pair %d of OTEL_EXPORTER_OTLP_HEADERS cannot be read; write key=value, with percent-encoding in values", i+1)
		}
		found.Set(key, value)
	}
	return found, nil
}

// tls returns a configuration with the certificates that the environment names, or nil for those of the system.
func (s signal) tls() (*tls.Config, error) {
	roots, certificate, key := s.get("CERTIFICATE"), s.get("CLIENT_CERTIFICATE"), s.get("CLIENT_KEY")
	if roots == "" && certificate == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		pem, err := os.ReadFile(roots)
		if err != nil {
			return nil, fmt.Errorf("reading OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", roots)
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
