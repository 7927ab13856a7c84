package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/client-go/rest"

	"drydock.dev"
	"drydock.dev/deploy"
	"drydock.dev/eventsource/engine"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry/export"
)

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
