package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
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
