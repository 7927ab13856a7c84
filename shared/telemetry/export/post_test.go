package export

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestPosts(t *testing.T) {
	for name, row := range map[string]struct {
		answers []int
		want    string
		posts   int
	}{
		"taken":                       {nil, "", 1},
		"taken at the third time":     {[]int{503, 429}, "", 3},
		"a proxy has a bad day":       {[]int{502, 504}, "", 3},
		"refused for good":            {[]int{400}, "400", 1},
		"an error of the collector's": {[]int{500}, "500", 1},
		"nobody is there":             {[]int{404}, "404", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, row.answers...)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL})
			c, err := newCollector(traces)
			if err != nil {
				t.Fatal(err)
			}
			err = c.post(t.Context(), message("x"))
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if got := len(s.at("/v1/traces")); got != row.posts {
				t.Errorf("%d posts, want %d", got, row.posts)
			}
		})
	}
}

func TestPostHasHeaders(t *testing.T) {
	for name, zip := range map[string]string{"plain": "none", "compressed": "gzip"} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL, "OTEL_EXPORTER_OTLP_COMPRESSION": zip,
				"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, tenant = a=b ,"})
			c, err := newCollector(traces)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.post(t.Context(), message("what there is to say")); err != nil {
				t.Fatal(err)
			}
			if got := string(s.at("/v1/traces")[0]); got != "what there is to say" {
				t.Errorf("got %q", got)
			}
			for key, want := range map[string]string{"Content-Type": "application/x-protobuf", "Authorization": "Bearer x", "Tenant": "a=b"} {
				if got := s.header.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// TestPostEndsAtTimeoutAtTimeout: a collector that never answers, or that always asks for patience, does not block the process.
func TestPostEndsAtTimeout(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); <-r.Context().Done() },
		"come again in a long time": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(handler)
			defer s.Close()
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "50"})
			c, err := newCollector(traces)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if err := c.post(context.Background(), message("x")); err == nil || time.Since(start) > 5*time.Second {
				t.Errorf("ended after %s with %v, want an error after 50 ms", time.Since(start), err)
			}
		})
	}
}

func TestPartlyRejectedPost(t *testing.T) {
	answer, err := proto.Marshal(&collectortrace.ExportTraceServiceResponse{
		PartialSuccess: &collectortrace.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := proto.Marshal(&collectortrace.ExportTraceServiceResponse{})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		answer []byte
		want   string
	}{
		"all of it":      {whole, ""},
		"some of it":     {answer, "too old"},
		"no message":     {[]byte{0xff}, "no protobuf"},
		"half a message": {answer[:len(answer)-2], "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rejected(row.answer)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
