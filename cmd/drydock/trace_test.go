package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"drydock.dev/shared/serve"
)

// asDrydock is the variable that lets the test binary run as the command itself.
const asDrydock = "DRYDOCK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asDrydock) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// posts holds the bodies that a collector received, by path.
type posts struct {
	mu   sync.Mutex
	body map[string][]byte
}

// ServeHTTP appends the body. Concatenated protobuf messages of one type are one message with the fields of all.
func (p *posts) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body[r.URL.Path] = append(p.body[r.URL.Path], body...)
}

// startServe starts the command in a separate process. It returns a function that sends the signals, waits for the end,
// and returns the exit code and the output.
func startServe(t *testing.T, port string, variables ...string) (end func(...os.Signal) (int, string)) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "serve", "sift")
	command.Env = append(os.Environ(), asDrydock+"=1", "PORT="+port, "KUBECONFIG="+kubeconfig, "K_SINK=http://127.0.0.1:1")
	command.Env = append(command.Env, variables...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return func(signals ...os.Signal) (int, string) {
		for _, s := range signals {
			_ = command.Process.Signal(s)
		}
		_ = command.Wait()
		return command.ProcessState.ExitCode(), out.String()
	}
}

const nowhere = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n" +
	"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // never used
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// sendEvent sends an event that concerns no function, until the process accepts it.
func sendEvent(t *testing.T, port string) {
	t.Helper()
	e := event.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType("dev.knative.apiserver.resource.update")
	e.SetExtension("kind", "ConfigMap")
	e.SetExtension("traceparent", "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01")
	send := serve.NewSender("http://127.0.0.1:"+port+"/", nil)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := send.Send(t.Context(), e)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestTelemetryIsExportedAtEnd: before a terminated process ends, it exports the span of its last event and its metrics.
func TestTelemetryIsExportedAtEnd(t *testing.T) {
	got, port := &posts{body: map[string][]byte{}}, freePort(t)
	collector := httptest.NewServer(got)
	defer collector.Close()
	end := startServe(t, port, "OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL,
		"OTEL_BSP_SCHEDULE_DELAY=3600000") // no batch before the end
	sendEvent(t, port)
	if code, out := end(syscall.SIGTERM); code != exitOK || !strings.Contains(out, `"trace_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`) {
		t.Errorf("exit code %d, log %s", code, out)
	}

	traces, metrics := &collectortrace.ExportTraceServiceRequest{}, &collectormetrics.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(got.body["/v1/traces"], traces); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(got.body["/v1/metrics"], metrics); err != nil {
		t.Fatal(err)
	}
	if len(traces.GetResourceSpans()) != 1 || len(metrics.GetResourceMetrics()) == 0 {
		t.Fatalf("the collector got %v and %v", traces, metrics)
	}
	span := traces.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]
	trace := fmt.Sprintf("%x", span.GetTraceId())
	if span.GetName() != "sift dev.knative.apiserver.resource.update" || trace != strings.Repeat("a", 32) {
		t.Errorf("%v", span)
	}
	for _, resource := range []fmt.Stringer{traces.GetResourceSpans()[0].GetResource(), metrics.GetResourceMetrics()[0].GetResource()} {
		if !strings.Contains(resource.String(), "drydock-sift") {
			t.Errorf("the resource is %s", resource)
		}
	}
	if !strings.Contains(metrics.String(), "http.server.request.duration") || !strings.Contains(metrics.String(), "go.goroutine.count") {
		t.Errorf("%v", metrics)
	}
}

// TestMissingCollectorDelaysNothing: the start and the events do not wait for the collector, and the end waits only
// briefly.
func TestMissingCollectorDelaysNothing(t *testing.T) {
	port := freePort(t)
	end := startServe(t, port, "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT=300")
	sendEvent(t, port)
	start := time.Now()
	code, out := end(syscall.SIGTERM)
	if code != exitOK || !strings.Contains(out, "telemetry was lost") || time.Since(start) > 15*time.Second {
		t.Errorf("exit code %d after %s, log %s", code, time.Since(start), out)
	}
}

func TestUnknownExporterFailsStart(t *testing.T) {
	end := startServe(t, freePort(t), "OTEL_TRACES_EXPORTER=jaeger")
	if code, out := end(); code != exitError || !strings.Contains(out, "none, otlp, console") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestPrometheusIsDefault: by default metrics are on the page, and a collector receives nothing.
func TestPrometheusIsDefault(t *testing.T) {
	got, port := &posts{body: map[string][]byte{}}, freePort(t)
	collector := httptest.NewServer(got)
	defer collector.Close()
	end := startServe(t, port, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	sendEvent(t, port)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	page, _ := io.ReadAll(response.Body)
	const want = `http_server_request_duration_seconds_count{cloudevents_type="dev.knative.apiserver.resource.update",` +
		`drydock_outcome="done",faas_name="sift",`
	if !strings.Contains(string(page), want) {
		t.Errorf("%s is not in\n%s", want, page)
	}
	if code, out := end(syscall.SIGTERM); code != exitOK || strings.Contains(out, "trace_id") || len(got.body) != 0 {
		t.Errorf("exit code %d, log %s, posted %v", code, out, got.body)
	}
}
