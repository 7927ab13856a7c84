//go:build cluster

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// collector stores the spans that are posted to it.
type collector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

// ServeHTTP accepts a post of spans.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := &collectortrace.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// TestOneResizeIsOneTrace runs everything: Knative's source, broker, filters and dispatcher, all functions, the real
// controllers, and a collector. Changes of sets, Jobs, claims and pods wake the functions, and so do ticks.
func TestOneResizeIsOneTrace(t *testing.T) {
	cluster(t)
	path := os.Getenv("DRYDOCK_TEST_KUBECONFIG")
	t.Setenv(kit.APIEnv, path)
	w := kit.NewWorld(t)
	got := &collector{}
	server := httptest.NewServer(got)
	defer server.Close()
	for name, value := range map[string]string{
		"KUBECONFIG": path, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "DRYDOCK_IMAGE": w.Settings.Image,
		"DRYDOCK_ALLOW_TAGS": "true", "DRYDOCK_IMPERSONATE": "true",
	} {
		t.Setenv(name, value)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"--namespace", w.Namespace, "--listen", "127.0.0.1:0", "--broker", "none", "--gateway", "none", "--status-page", "none",
			"--leader-elect=false", "--tick", "3s",
		}, io.Discard, &log)
	}()
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the resize has succeeded", func() string {
		if status := w.Status("web"); status == nil || status.Phase != api.Succeeded {
			return "it has not"
		}
		return ""
	})
	status := w.Status("web")
	stop()
	if code := await(t, "the process to end", ended); code != exitOK {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	expectOneTrace(t, got.spans, status)
	if t.Failed() {
		t.Log(log.String())
	}
}

// expectOneTrace fails unless all spans of the operation are in one trace and link to the source events that woke them.
func expectOneTrace(t *testing.T, spans []*tracepb.Span, status *api.Resize) {
	t.Helper()
	siftedIn, functions, wokenBy := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, s := range spans {
		if trace := hex.EncodeToString(s.GetTraceId()); attributeOf(s, "faas.name") == string(api.Sift) {
			siftedIn[trace] = true
		} else if attributeOf(s, "drydock.operation") == status.Operation {
			functions[attributeOf(s, "faas.name")]++
			if !strings.Contains(status.Trace, trace) {
				t.Errorf("span %s is in trace %s, the operation in %s: %v", s.GetName(), trace, status.Trace, s.GetAttributes())
			}
			for _, l := range s.GetLinks() {
				wokenBy[hex.EncodeToString(l.GetTraceId())] = true
			}
		}
	}
	for _, f := range []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore} {
		if functions[string(f)] == 0 {
			t.Errorf("no span of %s in the trace: %v", f, functions)
		}
	}
	known := 0
	for trace := range wokenBy {
		if siftedIn[trace] {
			known++
		}
	}
	if known < 3 {
		t.Errorf("woken by %d source events, want several; %d traces of such events, spans %v", known, len(siftedIn), functions)
	}
	t.Logf("%d spans; in the trace of the operation: %v; woken by %d source events of other traces", len(spans), functions, known)
}
