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
	"time"

	"github.com/kelseyhightower/envconfig"

	"drydock.dev"
	"drydock.dev/eventsource/gateway"
	"drydock.dev/eventsource/statuspage"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/settings"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/telemetry/export"
)

// environment is the environment of drydock serve.
type environment struct {
	Port     int           `envconfig:"PORT" default:"8080" desc:"port to listen on"`
	LogLevel slog.Level    `envconfig:"LOG_LEVEL" default:"info" desc:"lowest level of log lines: debug, info, warn or error"`
	Deadline time.Duration `envconfig:"DRYDOCK_EVENT_TIMEOUT" default:"25s" desc:"time limit of a function for one event"`
	function.Environment
	gateway.Options
	statuspage.Access
	settings.Kubeconfig
}

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return serveUsage(args, stdout, stderr)
	}
	var env environment
	if err := envconfig.Process("", &env); err != nil {
		fmt.Fprintf(stderr, "drydock serve: reading the settings: %v\n", err)
		return exitUsage
	}
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(stdout, &slog.HandlerOptions{Level: env.LogLevel})))
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serveFunction(ctx, api.Function(args[0]), env, log); err != nil {
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
	names := append(function.Names(), string(api.StatusPage), string(api.WakeGateway))
	fmt.Fprintf(out, "Usage: drydock serve FUNCTION\n\nFunctions: %s\n\nSettings, from the environment:\n", strings.Join(names, ", "))
	if err := settings.Print(out, &environment{}); err != nil {
		fmt.Fprintln(stderr, "drydock serve:", err)
	}
	fmt.Fprintf(out, "\n%s\n", export.Help)
	return code
}

// serveFunction serves until the context ends. Then it exports the remaining telemetry.
func serveFunction(ctx context.Context, name api.Function, env environment, log *slog.Logger) error {
	measure, err := export.Setup("drydock-"+string(name), log)
	if err != nil {
		return err
	}
	defer measure.Shutdown()
	health, mux := &serve.Health{}, http.NewServeMux()
	server := serve.NewServer(mux, env.Deadline, log)
	page := measure.Page
	switch name {
	case api.WakeGateway:
		page, err = handleVisits(mux, server, env, measure, log)
	case api.StatusPage:
		err = handleViews(mux, server, env, log)
	default:
		err = handleEvents(mux, name, env, measure, log)
	}
	if err != nil {
		return err
	}
	health.Register(mux, page)

	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(env.Port))) // outlives any request
	if err != nil {
		return fmt.Errorf("opening the port: %w. Choose another port with PORT", err)
	}
	log.Info("serving", "function", name, "address", listener.Addr().String())
	return serve.Run(ctx, server, listener, health, env.Deadline)
}

// handleEvents passes posted events to the function.
func handleEvents(mux *http.ServeMux, name api.Function, env environment, measure *export.Export, log *slog.Logger) error {
	handler, orders, err := function.Make(name, env.Environment, log)
	if err != nil {
		return err
	}
	mux.Handle("/{$}", serve.NewEventHandler(name, handler, env.Deadline, orders, measure.Telemetry, log))
	return nil
}

// handleVisits serves the wake gateway, which takes no events. It returns the page of metrics for callers with the gateway's token, because
// the same port is open to visitors.
func handleVisits(mux *http.ServeMux, server *http.Server, env environment, measure *export.Export, log *slog.Logger) (
	http.Handler, error) {
	config, err := kube.Config()
	if err != nil {
		return nil, err
	}
	wake := gateway.New(kube.NewClient(kube.ForFunction(config, api.WakeGateway, env.Settings)), env.Settings, env.Options, log)
	if err := wake.Measure(measure.Meter); err != nil {
		return nil, err
	}
	server.RegisterOnShutdown(wake.Stop)
	mux.Handle("/", wake)
	server.Handler = gateway.CleanPaths(mux)
	return wake.Guard(measure.Page), nil
}

// handleViews serves the status page, which takes no events.
func handleViews(mux *http.ServeMux, server *http.Server, env environment, log *slog.Logger) error {
	config, err := kube.Config()
	if err != nil {
		return err
	}
	page := statuspage.New(kube.NewClient(kube.ForFunction(config, api.StatusPage, env.Settings)), env.Settings, env.Access, log)
	server.RegisterOnShutdown(page.Stop)
	mux.Handle("/", page)
	return nil
}
