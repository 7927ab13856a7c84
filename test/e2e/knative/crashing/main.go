// Package main is backup with a flaw: its process ends in the middle of the first three events that it gets. A file
// outside of its container counts them.
package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudevents/sdk-go/v2/client"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev"
)

const (
	crashes = 3
	counter = "/state/crashes"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	if err := serve(log); err != nil {
		log.Error("serving failed", "error", err.Error())
		os.Exit(1)
	}
}

func serve(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := os.Setenv("FUNCTION", "backup"); err != nil {
		return err
	}
	receiver, err := client.NewHTTP(cehttp.WithPort(8080), cehttp.WithMiddleware(crash(log)),
		cehttp.WithGetHandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })) // the probes
	if err != nil {
		return err
	}
	return receiver.StartReceiver(ctx, function.New().Handle)
}

// crash ends the process when an event comes in, as long as it has not done so often enough.
func crash(log *slog.Logger) cehttp.Middleware {
	var one sync.Mutex // several events may come at once, and the process ends once
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one.Lock()
			so, err := os.ReadFile(counter)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				log.Error("reading the counter", "error", err.Error())
			}
			if r.Method == http.MethodPost && len(so) < crashes {
				if err := os.WriteFile(counter, append(so, '.'), 0o600); err != nil {
					log.Error("writing the counter", "error", err.Error())
				}
				log.Error("crashing", "id", r.Header.Get("Ce-Id"), "crash", len(so)+1)
				os.Exit(2)
			}
			one.Unlock()
			next.ServeHTTP(w, r)
			if r.Method == http.MethodPost {
				log.Info("event", "id", r.Header.Get("Ce-Id"))
			}
		})
	}
}
