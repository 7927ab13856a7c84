package export

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"drydock.dev/shared/telemetry"
)

// TestPageEqualsOfficialExporter compares the page with the official exporter, configured as Knative does
// (knative.dev/pkg observability/metrics). The order of a metric's series may differ.
func TestPageEqualsOfficialExporter(t *testing.T) {
	registry, ours := prometheus.NewRegistry(), sdkmetric.NewManualReader()
	theirs, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		t.Fatal(err)
	}
	someMetrics(t, ours, theirs)
	_, want := get(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	kind, got := get(t, page{ours})
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("-official +ours:\n%s", diff)
	}
	if kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %q", kind)
	}
}

// TestPageShowsCleanups: the page has the names that docs/telemetry.md documents, and a set only while it has ordinals
// to clean up.
func TestPageShowsCleanups(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hop := measure.Receive(t.Context(), "cleanup-pod", event.New(), nil)
	hop.Cleanups("n", "web", 2, 1)
	hop.Cleaned(ctx, "n", "web", "succeeded", 20*time.Second)
	const of = `k8s_namespace_name="n",k8s_statefulset_name="web",otel_scope_name="drydock.dev",otel_scope_schema_url="",otel_scope_version=""`
	gauge := []string{
		"# TYPE drydock_cleanup_ordinals gauge\n",
		`drydock_cleanup_ordinals{drydock_state="pending",` + of + "} 2\n",
		`drydock_cleanup_ordinals{drydock_state="running",` + of + "} 1\n",
	}
	stays := []string{
		"# TYPE drydock_cleanup_finished_total counter\n",
		`drydock_cleanup_finished_total{drydock_result="succeeded",` + of + "} 1\n",
		"# TYPE drydock_cleanup_duration_seconds histogram\n",
		`drydock_cleanup_duration_seconds_bucket{drydock_result="succeeded",` + of + ",le=\"15\"} 0\n",
		`drydock_cleanup_duration_seconds_bucket{drydock_result="succeeded",` + of + ",le=\"60\"} 1\n",
		`drydock_cleanup_duration_seconds_sum{drydock_result="succeeded",` + of + "} 20\n",
		`drydock_cleanup_duration_seconds_count{drydock_result="succeeded",` + of + "} 1\n",
	}
	_, got := get(t, page{reader})
	for _, line := range append(gauge, stays...) {
		if !strings.Contains(got, line) {
			t.Errorf("the page lacks %s", line)
		}
	}
	hop.Cleanups("n", "web", 0, 0)
	_, got = get(t, page{reader})
	if strings.Contains(got, "\ndrydock_cleanup_ordinals{") || !strings.Contains(got, stays[1]) {
		t.Errorf("nothing is left to clean up, and the page has\n%s", got)
	}
}

// TestPageShowsVolumesThatDoNotGrow: the page has the name that docs/telemetry.md documents, and a set only while it has
// such volumes.
func TestPageShowsVolumesThatDoNotGrow(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, hop := measure.Receive(t.Context(), "grow-volumes", event.New(), nil)
	hop.Growth("n", "web", 2)
	const line = `drydock_growth_stuck{k8s_namespace_name="n",k8s_statefulset_name="web",otel_scope_name="drydock.dev",otel_scope_schema_url="",` +
		"otel_scope_version=\"\"} 2\n"
	if _, got := get(t, page{reader}); !strings.Contains(got, line) || !strings.Contains(got, "# TYPE drydock_growth_stuck gauge\n") {
		t.Errorf("the page lacks %s\n%s", line, got)
	}
	hop.Growth("n", "web", 0)
	if _, got := get(t, page{reader}); strings.Contains(got, "\ndrydock_growth_stuck{") {
		t.Errorf("every volume can grow again, and the page has\n%s", got)
	}
}

// get reads a page.
func get(t *testing.T, h http.Handler) (kind, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Header().Get("Content-Type"), w.Body.String()
}

// sorted keeps the order of the metrics and sorts the lines of each.
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
