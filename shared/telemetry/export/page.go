package export

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// newPage returns a reader of metrics and the page that serves them to Prometheus, under the names that Knative gives its own
// (knative.dev/pkg observability/metrics).
func newPage() (sdkmetric.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := otelprom.New(
		otelprom.WithRegisterer(registry),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("making the page of metrics: %w", err)
	}
	return reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}), nil
}
