package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/kelseyhightower/envconfig"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/serve"
)

// settings are the environment of drydock serve.
type settings struct {
	Port     int           `envconfig:"PORT" default:"8080" desc:"port to listen on"`
	LogLevel slog.Level    `envconfig:"LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	Deadline time.Duration `envconfig:"DRYDOCK_EVENT_TIMEOUT" default:"25s" desc:"how long a function may work on one event"`
	function.Environment
}

// settingsTable is a template of envconfig.Usagef.
const settingsTable = "VARIABLE\tDEFAULT\tMEANING\n" +
	"{{range .}}{{usage_key .}}\t{{usage_default .}}\t{{usage_description .}}\n{{end}}" +
	"KUBECONFIG\t\tpath of a kubeconfig; without it the pod's service account\n"

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return serveUsage(args, stdout, stderr)
	}
	var s settings
	if err := envconfig.Process("", &s); err != nil {
		fmt.Fprintf(stderr, "drydock serve: reading the settings: %v\n", err)
		return exitUsage
	}
	log := slog.New(slog.NewJSONHandler(stdout, &slog.HandlerOptions{Level: s.LogLevel}))
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serveFunction(ctx, api.Function(args[0]), s, log); err != nil {
		log.Error("drydock serve failed", "function", args[0], "error", err.Error())
		return exitError
	}
	return exitOK
}

func serveUsage(args []string, stdout, stderr io.Writer) int {
	out, code := stderr, exitUsage
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		out, code = stdout, exitOK
	}
	fmt.Fprintf(out, "Usage: drydock serve FUNCTION\n\nFunctions: %s\n\nSettings, from the environment:\n", strings.Join(function.Names(), ", "))
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if err := envconfig.Usagef("", &settings{}, table, settingsTable); err != nil {
		fmt.Fprintln(stderr, "drydock serve:", err)
	}
	_ = table.Flush()
	return code
}

// serveFunction serves until the context ends.
func serveFunction(ctx context.Context, name api.Function, s settings, log *slog.Logger) error {
	handler, err := function.Make(name, s.Environment, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	health, mux := &serve.Health{}, http.NewServeMux()
	health.Register(mux, registry)
	mux.Handle("/{$}", serve.NewEventHandler(name, handler, s.Deadline, serve.NewMetrics(registry), log))

	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(s.Port))) //nolint:noctx // outlives any request
	if err != nil {
		return fmt.Errorf("opening the port: %w; choose another with PORT", err)
	}
	log.Info("serving", "function", name, "address", listener.Addr().String())
	return serve.Run(ctx, serve.NewServer(mux, s.Deadline, log), listener, health, s.Deadline)
}
