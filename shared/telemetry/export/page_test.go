package export

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"drydock.dev/shared/telemetry"
	"drydock.dev/test/golden"
)

// TestPageOfEveryInstrument: names, types, units and labels are stable, dashboards and alerts rest on them.
func TestPageOfEveryInstrument(t *testing.T) {
	reader, page := readPage(t)
	someMetrics(t, reader)
	kind, got := get(t, page)
	golden.Equal(t, got)
	if !strings.HasPrefix(kind, "text/plain; version=0.0.4; charset=utf-8") {
		t.Errorf("content type %q", kind)
	}
}

func readPage(t *testing.T) (sdkmetric.Reader, http.Handler) {
	t.Helper()
	reader, page, err := newPage()
	if err != nil {
		t.Fatal(err)
	}
	return reader, page
}

// TestTypeThatIsNotTextBreaksNoPage: Prometheus accepts only UTF-8, and one other label makes every later scrape fail. Any sender that
// reaches a function chooses the type.
func TestTypeThatIsNotTextBreaksNoPage(t *testing.T) {
	reader, page := readPage(t)
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"a\xff", strings.Repeat("x", 60<<10)} {
		measure.RecordAnswer(t.Context(), "backup", http.MethodPost, kind, telemetry.Result{Code: 204, Outcome: "done"}, time.Second)
	}
	const want = `http_server_request_duration_seconds_count{cloudevents_type="other",`
	if _, got := get(t, page); !strings.Contains(got, want) || len(got) > 20<<10 {
		t.Errorf("%d bytes: %.2000s", len(got), got)
	}
}

// TestPageShowsCleanups under the names that docs/telemetry.md tells, and a set only while it has something to clean up.
func TestPageShowsCleanups(t *testing.T) {
	reader, page := readPage(t)
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hop := measure.Receive(t.Context(), "cleanup-pod", event.New(), nil)
	hop.SetRemainingCleanups("n", "web", 2, 1)
	hop.CountFinishedCleanup(ctx, "n", "web", "succeeded", 20*time.Second)
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
	_, got := get(t, page)
	for _, line := range append(gauge, stays...) {
		if !strings.Contains(got, line) {
			t.Errorf("the page lacks %s", line)
		}
	}
	hop.SetRemainingCleanups("n", "web", 0, 0)
	_, got = get(t, page)
	if strings.Contains(got, "\ndrydock_cleanup_ordinals{") || !strings.Contains(got, stays[1]) {
		t.Errorf("nothing is left to clean up, and the page has\n%s", got)
	}
}

// TestPageShowsVolumesThatDoNotGrow under the name that docs/telemetry.md tells, and a set only while it has such volumes.
func TestPageShowsVolumesThatDoNotGrow(t *testing.T) {
	reader, page := readPage(t)
	measure, err := telemetry.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(telemetry.ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, hop := measure.Receive(t.Context(), "grow-volumes", event.New(), nil)
	hop.SetStuckTemplates("n", "web", 2)
	const line = `drydock_growth_stuck{k8s_namespace_name="n",k8s_statefulset_name="web",otel_scope_name="drydock.dev",` +
		`otel_scope_schema_url="",` +
		"otel_scope_version=\"\"} 2\n"
	if _, got := get(t, page); !strings.Contains(got, line) || !strings.Contains(got, "# TYPE drydock_growth_stuck gauge\n") {
		t.Errorf("the page lacks %s\n%s", line, got)
	}
	hop.SetStuckTemplates("n", "web", 0)
	if _, got := get(t, page); strings.Contains(got, "\ndrydock_growth_stuck{") {
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
