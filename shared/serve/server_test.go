package serve

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// TestShutdownFinishesRequestInProgress: the server becomes unready at once, accepts no new request, and answers the old
// one.
func TestShutdownFinishesRequestInProgress(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	health, mux := &Health{}, http.NewServeMux()
	health.Register(mux, nil)
	mux.Handle("/{$}", silentHandler(func(context.Context, event.Event) (*event.Event, error) {
		close(started)
		<-finish
		return nil, nil
	}))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	go func() {
		ended <- Run(ctx, NewServer(mux, time.Minute, log), listener, health, time.Minute)
	}()
	answered := make(chan int, 1)
	go func() {
		response, err := http.DefaultClient.Do(post(context.WithoutCancel(ctx), t, url, "t"))
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	<-started
	if code := get(t, mux, ReadinessPath); code != http.StatusOK {
		t.Errorf("readiness %d while serving, want 200", code)
	}
	stop()
	for health.ready.Load() { // only this test would need a channel
	}
	if code := get(t, mux, ReadinessPath); code != http.StatusServiceUnavailable {
		t.Errorf("readiness %d while ending, want 503", code)
	}
	if code := get(t, mux, LivenessPath); code != http.StatusOK {
		t.Errorf("liveness %d while ending, want 200", code)
	}
	select {
	case err := <-ended:
		t.Fatalf("the server ended before the request: %v", err)
	default:
	}
	close(finish)
	if code := <-answered; code != http.StatusNoContent {
		t.Errorf("the request in progress got status %d, want 204", code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code
}

func TestShutdownCancelsSlowRequest(t *testing.T) {
	started := make(chan struct{})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	handler := silentHandler(func(ctx context.Context, _ event.Event) (*event.Event, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	go func() {
		if response, err := http.DefaultClient.Do(post(t.Context(), t, "http://"+listener.Addr().String(), "t")); err == nil {
			_ = response.Body.Close()
		}
	}()
	go func() {
		<-started
		stop()
	}()
	err = Run(ctx, NewServer(handler, time.Minute, slog.New(slog.DiscardHandler)), listener, &Health{}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("got %v, want an error that says that requests were cancelled", err)
	}
}

// TestMetricsPage: without a page there is no path for it.
func TestMetricsPage(t *testing.T) {
	for name, row := range map[string]struct {
		page http.Handler
		want int
	}{
		"a page":  {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), http.StatusOK},
		"no page": {nil, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			(&Health{}).Register(mux, row.page)
			if code := get(t, mux, MetricsPath); code != row.want {
				t.Errorf("got %d, want %d", code, row.want)
			}
		})
	}
}

func TestSender(t *testing.T) {
	e := event.New()
	e.SetID("7")
	e.SetType("dev.drydock.object.changed")
	e.SetSource("drydock.dev/sift")
	e.SetExtension("concerns", "backup restore")
	for name, row := range map[string]struct {
		code int
		want string
	}{
		"accepted":   {http.StatusAccepted, ""},
		"refused":    {http.StatusServiceUnavailable, "503 Service Unavailable: no room"},
		"a redirect": {http.StatusNotModified, "304"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, err := cehttp.NewEventFromHTTPRequest(r)
				if err != nil || got.String() != e.String() || r.Header.Get("Ce-Id") != "7" {
					t.Errorf("want the event in binary mode, got %v, %v", got, err)
				}
				w.WriteHeader(row.code)
				_, _ = io.WriteString(w, "no room")
			}))
			defer sink.Close()
			err := NewSender(sink.URL, nil).Send(t.Context(), e)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	if err := NewSender("", nil).Send(t.Context(), e); err == nil || !strings.Contains(err.Error(), "K_SINK") {
		t.Errorf("without a sink: got %v, want an error that names K_SINK", err)
	}
}
