package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/telemetry"
)

// Paths of probes and metrics.
const (
	LivenessPath  = "/health/liveness"
	ReadinessPath = "/health/readiness"
	MetricsPath   = "/metrics"
)

const (
	readTimeout = 15 * time.Second
	idleTimeout = 2 * time.Minute

	// writeMargin is added to a function's deadline for reading the event and writing the answer.
	writeMargin = readTimeout + 5*time.Second
)

// Health answers probes. The process is alive from the start, and ready as set by SetReady.
type Health struct{ ready atomic.Bool }

// SetReady sets whether the process accepts work.
func (h *Health) SetReady(ready bool) { h.ready.Store(ready) }

// Register adds the probes to the mux, and the page of metrics unless it is nil.
func (h *Health) Register(mux *http.ServeMux, metrics http.Handler) {
	mux.HandleFunc("GET "+LivenessPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET "+ReadinessPath, func(w http.ResponseWriter, _ *http.Request) {
		if !h.ready.Load() {
			http.Error(w, "not ready: starting, waiting for the lease, or shutting down", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	if metrics != nil {
		mux.Handle("GET "+MetricsPath, metrics)
	}
}

// NewServer returns an HTTP/1.1 and h2c server with timeouts for handlers that may run until the deadline.
func NewServer(handler http.Handler, deadline time.Duration, log *slog.Logger) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      deadline + writeMargin,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Run serves until the context ends. Then it is not ready and accepts no requests. Requests in progress may finish
// within the grace period.
func Run(ctx context.Context, server *http.Server, listener net.Listener, health *Health, grace time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	health.SetReady(true)
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	health.SetReady(false)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close()
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("shutting down: %w", err)
		}
		return fmt.Errorf("shutting down: requests that still ran after %s were cancelled", grace)
	}
	return nil
}

// sendTimeout is the time limit of one POST. It is longer than a cold start behind a synchronous Broker, and shorter
// than a function's deadline.
const sendTimeout = 20 * time.Second

// maxErrorText is the number of bytes of an answer that go into an error.
const maxErrorText = 256

// Sender posts events to a sink, in binary mode.
type Sender struct {
	sink   string
	client *http.Client
}

// NewSender returns a sender to the sink's URL. A nil transport means a new one.
func NewSender(sink string, transport http.RoundTripper) *Sender {
	if transport == nil {
		transport = NewTransport()
	}
	return &Sender{sink: sink, client: &http.Client{Transport: transport, Timeout: sendTimeout}}
}

// NewTransport returns the transport of a Sender, for callers that wrap it.
func NewTransport() http.RoundTripper {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout}
}

// Send posts the event, with the trace context of the current work. Any answer other than 2xx is an error.
func (s *Sender) Send(ctx context.Context, e event.Event) error {
	if s.sink == "" {
		return errors.New("there is no sink for events. Set K_SINK to the Broker's URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.sink, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", s.sink, err)
	}
	e = e.Clone() // the caller's event must not change
	telemetry.Stamp(ctx, &e)
	telemetry.StampHeader(ctx, request.Header)
	if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("sending event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	defer response.Body.Close() // nothing was written
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("sending event %s of type %s: %s answered %s: %s", e.ID(), e.Type(), s.sink, response.Status, text)
	}
	return nil
}
