package export

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// environment sets the variables and removes all other variables of OpenTelemetry.
func environment(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func TestUnknownSettingFailsStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"an exporter of traces":       {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "none, otlp, console"},
		"an exporter of metrics":      {map[string]string{"OTEL_METRICS_EXPORTER": "statsd"}, "prometheus, otlp, none"},
		"two exporters":               {map[string]string{"OTEL_TRACES_EXPORTER": "otlp,console"}, "OTEL_TRACES_EXPORTER"},
		"whether the SDK is disabled": {map[string]string{"OTEL_SDK_DISABLED": "maybe"}, "false, true"},
		"a propagator":                {map[string]string{"OTEL_PROPAGATORS": "tracecontext,b3"}, "b3"},
		"a sampler":                   {map[string]string{"OTEL_TRACES_SAMPLER": "sometimes"}, "traceidratio"},
		"a share": {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"},
			"from 0 to 1"},
		"no share": {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"},
			"from 0 to 1"},
		"a resource":                     {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "no pairs"}, "OTEL_RESOURCE_ATTRIBUTES"},
		"gRPC":                           {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"},
		"gRPC for traces":                {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		"a compression":                  {map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "none, gzip"},
		"an endpoint without a scheme":   {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "http://localhost:4318"},
		"an endpoint that is none":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://"}, "http://localhost:4318"},
		"a time":                         {map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "milliseconds"},
		"a certificate that is not here": {map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere"}, "/nowhere"},
		"a certificate that is none":     {map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": file}, "no certificate in"},
		"a key without its certificate":  {map[string]string{"OTEL_EXPORTER_OTLP_CLIENT_KEY": file}, "CLIENT_CERTIFICATE"},
		"headers that are none":          {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=1,secret"}, "pair 2"},
		"a temporality": {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"},
			"cumulative"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp"})
			environment(t, row.env)
			if row.env["OTEL_TRACES_EXPORTER"] == "" {
				t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			}
			_, err := Setup("drydock-try", quiet)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains a header: %v", err)
			}
		})
	}
}

// TestOffCostsNothing: with tracing off there is no tracer and no goroutine. With the SDK disabled there are no metrics
// either.
func TestOffCostsNothing(t *testing.T) {
	for name, row := range map[string]struct {
		env     map[string]string
		tracing bool
		page    bool
	}{
		"nothing is set":      {nil, false, true},
		"the SDK is disabled": {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, false, false},
		"everything to none":  {map[string]string{"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}, false, false},
		"empty is not set":    {map[string]string{"OTEL_TRACES_EXPORTER": "", "OTEL_TRACES_SAMPLER": ""}, false, true},
		"traces only":         {map[string]string{"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "console"}, true, false},
		"traces over OTLP":    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, true},
		"supported values": {map[string]string{"OTEL_PROPAGATORS": "tracecontext,baggage", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
			false, true},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, row.env)
			before := runtime.NumGoroutine()
			e, err := Setup("drydock-try", quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Shutdown()
			if e.Tracing() != row.tracing || (e.Page != nil) != row.page {
				t.Errorf("tracing %t, a page %t", e.Tracing(), e.Page != nil)
			}
			if now := runtime.NumGoroutine(); !row.tracing && now > before { // a goroutine of an earlier test may have ended
				t.Errorf("%d goroutines more, with tracing off", now-before)
			}
		})
	}
}

func TestEndpointOfEachSignal(t *testing.T) {
	for name, row := range map[string]struct {
		env             map[string]string
		traces, metrics string
	}{
		"the default": {nil, "http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"},
		"one collector": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:1/otlp/"},
			"https://c:1/otlp/v1/traces", "https://c:1/otlp/v1/metrics"},
		"a separate URL for traces, unchanged": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/"},
			"http://t/", "http://localhost:4318/v1/metrics"},
		"common and for metrics": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c",
			"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/x"},
			"http://c/v1/traces", "http://m/x"},
		"an empty variable is one that is not set": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
			"http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, row.env)
			for of, want := range map[signal]string{traces: row.traces, metrics: row.metrics} {
				if c, err := of.collector(); err != nil || c.endpoint.String() != want {
					t.Errorf("%s go to %s (%v), want %s", of.name, c.endpoint, err, want)
				}
			}
		})
	}
}

// TestResourceAttributes: the environment takes precedence over the defaults.
func TestResourceAttributes(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"by default":   {nil, `service_name="drydock-try"`},
		"a name":       {map[string]string{"OTEL_SERVICE_NAME": "mine"}, `service_name="mine"`},
		"an attribute": {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine,team=storage"}, `team="storage"`},
		"the name wins": {map[string]string{"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"},
			`service_name="mine"`},
		"a Knative Service": {map[string]string{"K_REVISION": "backup-00007"}, `faas_version="backup-00007"`},
		"the SDK is named":  {nil, `telemetry_sdk_language="go"`},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, row.env)
			e, err := Setup("drydock-try", quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Shutdown()
			w := httptest.NewRecorder()
			e.Page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if !strings.Contains(w.Body.String(), row.want) {
				t.Errorf("%s is not in\n%s", row.want, w.Body)
			}
		})
	}
}
