package export

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// TestPageIsWhatTheOfficialExporterServes, but for the order of a metric's series, set up as Knative does (knative.dev/pkg
// observability/metrics).
func TestPageIsWhatTheOfficialExporterServes(t *testing.T) {
	registry, ours := prometheus.NewRegistry(), sdkmetric.NewManualReader()
	theirs, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		t.Fatal(err)
	}
	someMetrics(t, ours, theirs)
	get := func(h http.Handler) (string, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return w.Header().Get("Content-Type"), w.Body.String()
	}
	_, want := get(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	kind, got := get(page{ours})
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("-official +ours:\n%s", diff)
	}
	if kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %q", kind)
	}
}

// sorted keeps the order of the metrics, and sorts the lines of each.
func sorted(page string) []string {
	var families []string
	for i, text := range strings.Split(page, "# HELP ") {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if i > 0 {
			slices.Sort(lines[2:]) // after HELP and TYPE
		}
		families = append(families, strings.Join(lines, "\n"))
	}
	return families
}
