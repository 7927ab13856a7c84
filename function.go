// Package function is the `func` project: one image that is every function, told by $FUNCTION which one it is.
package function

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/kelseyhightower/envconfig"
	"k8s.io/client-go/transport"

	"drydock.dev/eventsource/sift"
	"drydock.dev/functions/backup"
	"drydock.dev/functions/cleanuppod"
	"drydock.dev/functions/deadletter"
	"drydock.dev/functions/detectresize"
	"drydock.dev/functions/growvolumes"
	"drydock.dev/functions/idletimeout"
	"drydock.dev/functions/pauseowner"
	"drydock.dev/functions/restore"
	"drydock.dev/functions/scalehooks"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/telemetry/export"
)

// Handler is a function.
type Handler = serve.Handler

// Sender sends events to the Broker.
type Sender = sift.Sender

// Handlers makes every function. If the rows about operators cannot be read, or the image of the movers cannot run, it makes those
// that need none of them: a mistake there must not keep a set from getting its volumes back.
func Handlers(client *kube.Client, settings api.Settings, send Sender, log *slog.Logger) (map[api.Function]Handler, error) {
	handlers := map[api.Function]Handler{
		api.Sift:        sift.New(client, settings, send, log),
		api.Backup:      serve.Shares(serve.TurnsOfAny(backup.New(client, settings, log))),
		api.Restore:     serve.Shares(serve.TurnsOfAny(restore.New(client, settings, log))),
		api.IdleTimeout: inTurn(idletimeout.New(client, settings, log)),
		api.CleanupPod:  inTurn(cleanuppod.New(client, settings, log)),
		api.ScaleHooks:  inTurn(scalehooks.New(client, settings, log)),
		api.GrowVolumes: inTurn(growvolumes.New(client, settings, log)),
		api.DeadLetter:  deadletter.New(client, settings, log),
	}
	image := settings.CheckImage()
	if image != nil {
		delete(handlers, api.Backup)
	}
	registry, err := owners.FromSettings(settings.Owners)
	if err != nil {
		return handlers, errors.Join(image, fmt.Errorf("reading DRYDOCK_OWNERS: %w", err))
	}
	handlers[api.DetectResize] = inTurn(detectresize.New(client, settings, registry, log))
	handlers[api.PauseOwner] = inTurn(pauseowner.New(client, settings, registry, log))
	return handlers, image
}

// inTurn has a function work on one object at a time, and on no namespace alone.
func inTurn(function Handler) Handler { return serve.Shares(serve.Turns(function)) }

// Names are the functions that Handlers makes, in order.
func Names() []string {
	names := []string{}
	any := api.Settings{Image: "localhost/drydock:any", AllowTags: true}
	handlers, _ := Handlers(nil, any, nil, slog.New(slog.DiscardHandler)) //nolint:errcheck // nothing of it can be wrong
	for name := range handlers {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Environment is what a function in a process of its own reads from its environment.
type Environment struct {
	Sink      string `envconfig:"K_SINK" desc:"URL of the Broker; sift sends what its sweep found there"`
	SinkToken string `envconfig:"DRYDOCK_SINK_TOKEN" desc:"file with the token that sift shows the Broker; empty where Knative authenticates nobody"`
	api.Settings
}

// Make makes the named function as the environment says, and tells whose orders it takes.
func Make(name api.Function, env Environment, log *slog.Logger) (Handler, serve.Orders, error) {
	if !slices.Contains(Names(), string(name)) {
		return nil, serve.Orders{}, fmt.Errorf("no function %q; there are %s", name, strings.Join(Names(), ", "))
	}
	var send Sender
	if name == api.Sift { // all others answer with their events
		var err error
		if send, err = env.sender(); err != nil {
			return nil, serve.Orders{}, fmt.Errorf("function %s sends events: %w", name, err)
		}
	}
	config, err := kube.Config()
	if err != nil {
		return nil, serve.Orders{}, err
	}
	client := kube.NewClient(config)
	handlers, err := Handlers(client, env.Settings, send, log)
	if handler, made := handlers[name]; made {
		return handler, OrdersOf(client, env.Settings), nil
	}
	return nil, serve.Orders{}, err
}

// OrdersOf says who may send events that are orders.
func OrdersOf(client *kube.Client, settings api.Settings) serve.Orders {
	if settings.TrustBroker {
		return serve.Orders{}
	}
	return serve.Orders{Access: client}
}

func (env Environment) sender() (Sender, error) {
	if env.Sink == "" {
		return nil, errors.New("set K_SINK to the Broker's URL")
	}
	if env.SinkToken == "" {
		return serve.NewSender(env.Sink, nil), nil
	}
	// The token is read again as the kubelet renews it.
	authorized, err := transport.NewBearerAuthWithRefreshRoundTripper("", env.SinkToken, serve.NewTransport())
	if err != nil {
		return nil, fmt.Errorf("reading the token that DRYDOCK_SINK_TOKEN names: %w", err)
	}
	return serve.NewSender(env.Sink, authorized), nil
}

// F is the function that $FUNCTION names, for func's server.
type F struct {
	name    string
	handler Handler
	// trusting: orders need no token. func's server keeps the request's header to itself, so there is none to check.
	trusting bool
	measure  *export.Export
	err      error
}

// New reads the environment. func has no way to take an error from it, so Ready and Handle report it.
func New() *F {
	var env Environment
	if err := envconfig.Process("", &env); err != nil {
		return &F{err: fmt.Errorf("reading the settings: %w", err)}
	}
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(os.Stdout, nil)))
	name := os.Getenv("FUNCTION")
	handler, orders, err := Make(api.Function(name), env, log)
	if err != nil {
		return &F{err: fmt.Errorf("making the function that $FUNCTION names: %w", err)}
	}
	measure, err := export.Setup("drydock-"+name, log)
	return &F{name: name, handler: handler, trusting: orders.Access == nil, measure: measure, err: err}
}

// Ready reports whether the function was made.
func (f *F) Ready(context.Context) (bool, error) { return f.err == nil, f.err }

// Stop sends what telemetry is left; func's server calls it at the end.
func (f *F) Stop(context.Context) error {
	if f.measure != nil {
		f.measure.Shutdown()
	}
	return nil
}

// Handle hands the event to the function. func's server turns any other error into a 500, which is retried. It keeps the
// request's header to itself, so the event's own trace context is all there is.
func (f *F) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if f.err != nil {
		return nil, f.err
	}
	if !f.trusting && events.IsOrder(e.Type()) {
		return nil, cehttp.NewResult(http.StatusForbidden, "event %q is an order, whose sender cannot be checked here; write the annotation %s on the StatefulSet, "+
			"or set DRYDOCK_TRUST_BROKER where the Broker authenticates who sends events", e.ID(), events.OrderAnnotation(e.Type()))
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, serve.DefaultDeadline) // func's server sets none, and cuts off after 30 s
	defer cancel()
	ctx, hop := f.measure.Receive(ctx, f.name, e, nil)
	reply, err := f.handler.Handle(ctx, e)
	result := serve.ResultOf(reply, err)
	hop.End(ctx, result)
	f.measure.Answered(ctx, f.name, http.MethodPost, e.Type(), result, time.Since(start))
	switch {
	case err != nil:
		return nil, cehttp.NewResult(fault.Status(err), "%w", err)
	case reply != nil:
		telemetry.Stamp(ctx, reply)
	}
	return reply, nil
}
