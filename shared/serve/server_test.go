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

// TestShutdownFinishesWhatIsUnderWay: not ready at once, no new work, the old one answered.
func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	health, mux := &Health{}, http.NewServeMux()
	health.Register(mux, nil)
	mux.Handle("/{$}", quietly(func(context.Context, event.Event) (*event.Event, error) {
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
	for health.ready.Load() { //nolint:revive // a channel would be there for this test only
	}
	if code := get(t, mux, ReadinessPath); code != http.StatusServiceUnavailable {
		t.Errorf("readiness %d while ending, want 503", code)
	}
	if code := get(t, mux, LivenessPath); code != http.StatusOK {
		t.Errorf("liveness %d while ending, want 200", code)
	}
	select {
	case err := <-ended:
		t.Fatalf("ended before the work was done: %v", err)
	default:
	}
	close(finish)
	if code := <-answered; code != http.StatusNoContent {
		t.Errorf("the work under way was answered %d, want 204", code)
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

func TestShutdownCutsOffWhatTakesTooLong(t *testing.T) {
	started := make(chan struct{})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	handler := quietly(func(ctx context.Context, _ event.Event) (*event.Event, error) {
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
	if err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("got %v, want to be told that work was cut off", err)
	}
}

// TestMetricsPage: who has none serves none.
func TestMetricsPage(t *testing.T) {
	for name, row := range map[string]struct {
		page http.Handler
		want int
	}{
		"a page":    {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), http.StatusOK},
		"elsewhere": {nil, http.StatusNotFound},
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
		"taken":            {http.StatusAccepted, ""},
		"refused":          {http.StatusServiceUnavailable, "503 Service Unavailable: no room"},
		"a redirect is no": {http.StatusNotModified, "304"},
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
		t.Errorf("without a sink: got %v, want to be told to set K_SINK", err)
	}
}
