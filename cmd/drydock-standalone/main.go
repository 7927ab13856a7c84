// Command drydock-standalone runs all of Drydock in one process, without Knative. Package engine embeds the event components of Knative.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"drydock.dev"
	"drydock.dev/deploy"
	"drydock.dev/eventsource/engine"
	"drydock.dev/eventsource/gateway"
	"drydock.dev/eventsource/statuspage"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/telemetry/export"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := readOptions(args, stdout, stderr)
	switch {
	case errors.Is(err, errHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "drydock-standalone:", err)
		return exitUsage
	}
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: o.LogLevel})))
	klog.SetSlogLogger(log.With("component", "client-go"))
	if err := runAll(ctx, o, stdout, log); err != nil {
		log.Error("drydock-standalone failed", "error", err.Error())
		return exitError
	}
	return exitOK
}

// runAll runs the engine, the server for probes and metrics, the wake gateway and the status page until the context ends.
func runAll(ctx context.Context, o options, stdout io.Writer, log *slog.Logger) error {
	config, err := kube.Config()
	if err != nil {
		return err
	}
	stream, closeLog, err := openStream(o.EventsLog, stdout)
	if err != nil {
		return err
	}
	defer closeLog()

	measure, err := export.Setup("drydock-standalone", log)
	if err != nil {
		return err
	}
	defer measure.Shutdown()
	e, err := assemble(o, config, stream, measure, log)
	if err != nil {
		return err
	}
	health := &serve.Health{}
	stopHealth, err := listenHealth(o.Listen, health, measure.Page, stream, log)
	if err != nil {
		return err
	}
	defer stopHealth()
	stopGateway, err := listenGateway(o, config, measure, log)
	if err != nil {
		return err
	}
	defer stopGateway()
	stopPage, err := listenStatusPage(o, config, log)
	if err != nil {
		return err
	}
	defer stopPage()

	lead := func(ctx context.Context) error {
		health.SetReady(true)
		defer health.SetReady(false)
		return e.Run(ctx)
	}
	if !o.LeaderElect {
		return lead(ctx)
	}
	return elect(ctx, config, o.LeaseNamespace, log, lead)
}

// openStream returns a stream that writes the Broker's events to the path, and a function that closes the file. An empty
// path means no output, and "-" means stdout.
func openStream(path string, stdout io.Writer) (*engine.Stream, func(), error) {
	switch path {
	case "":
		return engine.NewStream(nil), func() {}, nil
	case "-":
		return engine.NewStream(stdout), func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the events log: %w", err)
	}
	return engine.NewStream(file), func() { _ = file.Close() }, nil
}

// listenHealth serves probes, metrics and the stream of events. It starts before the election, so a replica without the
// lease serves them, too.
func listenHealth(address string, health *serve.Health, metrics, stream http.Handler, log *slog.Logger) (func(), error) {
	mux := http.NewServeMux()
	health.Register(mux, metrics)
	mux.Handle("GET /debug/events", stream)
	return listen("metrics and health", "--listen", address, serve.NewServer(mux, time.Minute, log), log)
}

// listenGateway serves the wake gateway, unless --gateway is none. Every replica serves it, because it needs no lease.
func listenGateway(o options, config *rest.Config, measure *export.Export, log *slog.Logger) (func(), error) {
	if o.Gateway == switchedOff {
		return func() {}, nil
	}
	wake := gateway.New(kube.NewClient(o.configFor(config, api.WakeGateway)), o.Settings, o.Options, log)
	if err := wake.Measure(measure.Meter); err != nil {
		return nil, err
	}
	stop, err := listen("wake gateway", "--gateway", o.Gateway, serve.NewServer(wake, time.Minute, log), log)
	if err != nil {
		return nil, err
	}
	return func() {
		wake.Stop()
		stop()
	}, nil
}

// listenStatusPage serves the status page, unless --status-page is none. Every replica serves it, because it only reads.
func listenStatusPage(o options, config *rest.Config, log *slog.Logger) (func(), error) {
	if o.StatusPage == switchedOff {
		return func() {}, nil
	}
	page := statuspage.New(kube.NewClient(o.configFor(config, api.StatusPage)), o.Settings, o.Access, log)
	stop, err := listen("status page", "--status-page", o.StatusPage, serve.NewServer(page, time.Minute, log), log)
	if err != nil {
		return nil, err
	}
	return func() {
		page.Stop()
		stop()
	}, nil
}

// endOfRequests is how long a server that stops waits for the answers to its requests.
const endOfRequests = 3 * time.Second

// listen serves on the address. It returns a function that stops the server.
func listen(what, flag, address string, server *http.Server, log *slog.Logger) (func(), error) {
	listener, err := net.Listen("tcp", address) // without a context, because the listener outlives every request
	if err != nil {
		return nil, fmt.Errorf("opening the address for %s: %w. Choose another address with %s", what, err, flag)
	}
	log.Info(what, "url", "http://"+listener.Addr().String())
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })
	return func() {
		ending, cancel := context.WithTimeout(context.Background(), endOfRequests)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			_ = server.Close()
		}
		done.Wait()
	}, nil
}

// assemble creates the engine with all functions.
func assemble(o options, config *rest.Config, stream *engine.Stream, measure *export.Export, log *slog.Logger) (*engine.Engine, error) {
	triggers, err := engine.LoadTriggers(deploy.Triggers)
	if err != nil {
		return nil, err
	}
	// The engine needs the functions, and sift needs the engine to send events to.
	late := &lateSender{}
	handlers := map[api.Function]http.Handler{}
	config = kube.Limited(config, o.Settings)
	functions, err := makeHandlers(o, config, late, log)
	if err != nil {
		return nil, err
	}
	for name, f := range functions { // they trust the Broker, which rejects orders without permission
		limit := cmp.Or(o.EventTimeout, serve.DefaultDeadline) + serve.MaxWait // events wait for their namespace
		handlers[name] = serve.NewEventHandler(name, f, limit, serve.Orders{}, measure.Telemetry, log)
	}
	var source *engine.Source
	if !o.NoSource {
		source = &engine.Source{Config: o.configFor(config, api.Source), Namespaces: o.Namespaces}
	}
	orders := function.OrdersOf(kube.NewClient(o.configFor(config, api.IdleTimeout)), o.Settings) // an account that may review tokens
	e, err := engine.New(engine.Config{
		Triggers: triggers, Functions: handlers, Source: source, Tick: o.Tick, MaxInFlight: o.InFlight,
		BrokerAddress: o.Broker, Guard: orders.Guard, Passed: stream.Passed, Meter: measure.Meter, Log: log,
	})
	if err != nil {
		return nil, err
	}
	late.Sender = serve.NewSender(e.SinkURL(), e.Transport())
	return e, nil
}

// makeHandlers creates every function. Each has a separate client, so that it works under its own account if the process
// impersonates the functions' accounts.
func makeHandlers(o options, config *rest.Config, send function.Sender, log *slog.Logger) (map[api.Function]function.Handler, error) {
	handlers := map[api.Function]function.Handler{}
	o.OwnFunctionsOnly = true // the engine has no other Triggers
	for _, text := range function.Names() {
		name := api.Function(text)
		handler, err := function.NewHandler(name, kube.NewClient(o.configFor(config, name)), o.Settings, send, log)
		if err != nil {
			return nil, err
		}
		handlers[name] = handler
	}
	return handlers, nil
}

// lateSender sends events after its Sender is set.
type lateSender struct{ *serve.Sender }

func (l *lateSender) Send(ctx context.Context, e event.Event) error {
	if l.Sender == nil {
		return errors.New("sending an event before the engine exists")
	}
	return l.Sender.Send(ctx, e)
}
