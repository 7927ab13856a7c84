// Package function is the project of Knative's func: one image has all functions, and the environment variable FUNCTION selects one.
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
	"drydock.dev/functions/scale"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/telemetry/export"
)

// Handler handles the events of one function.
type Handler = serve.Handler

// Sender sends events to the Broker.
type Sender = sift.Sender

// NewHandler returns the function with the name, for a process that has all functions. It fails if a setting that the function needs cannot
// be used.
func NewHandler(name api.Function, client *kube.Client, settings api.Settings, send Sender, log *slog.Logger) (Handler, error) {
	return constructorsOf(client, settings, send, log, maxWaitingStandalone)[name]()
}

// maxWaitingStandalone is the number of events of a namespace that may wait in each function if one process has all functions. It is far
// above DRYDOCK_IN_FLIGHT, so that nearly every event may wait, and bounds only the memory.
const maxWaitingStandalone = 1000

// constructor makes a function, or says which setting it cannot use.
type constructor = func() (Handler, error)

// constructorsOf returns the constructor of each function. A constructor reads only what its function needs, because the table of owners
// takes longer to read than everything else at the start. maxWaiting is the number of events of a namespace that may wait in each
// function, see serve.LimitNamespaces.
func constructorsOf(client *kube.Client, settings api.Settings, send Sender, log *slog.Logger,
	maxWaiting int) map[api.Function]constructor {
	limited := func(function Handler) Handler { return serve.LimitNamespaces(function, maxWaiting) }
	oneByOne := func(function Handler) Handler { return limited(serve.Coalesce(function)) }
	valid := func(make func() Handler) constructor {
		return func() (Handler, error) { return make(), nil }
	}
	withOwners := func(make func(owners.Registry) Handler) constructor {
		return func() (Handler, error) {
			all, err := owners.LoadRegistry(settings.Owners)
			if err != nil {
				return nil, fmt.Errorf("reading DRYDOCK_OWNERS: %w", err)
			}
			return oneByOne(make(all)), nil
		}
	}
	return map[api.Function]constructor{
		api.Sift: valid(func() Handler { return sift.New(client, settings, send, log) }),
		api.Backup: func() (Handler, error) {
			if err := settings.CheckImage(); err != nil {
				return nil, err
			}
			return limited(serve.CoalesceAny(backup.New(client, settings, log))), nil
		},
		api.Restore:       valid(func() Handler { return limited(serve.CoalesceAny(restore.New(client, settings, log))) }),
		api.IdleTimeout:   valid(func() Handler { return oneByOne(idletimeout.New(client, settings, log)) }),
		api.CleanupPod:    valid(func() Handler { return oneByOne(cleanuppod.New(client, settings, log)) }),
		api.ScaleFunction: valid(func() Handler { return oneByOne(scale.New(client, settings, log)) }),
		api.GrowVolumes:   valid(func() Handler { return oneByOne(growvolumes.New(client, settings, log)) }),
		api.DeadLetter:    valid(func() Handler { return deadletter.New(client, log) }),
		api.DetectResize:  withOwners(func(all owners.Registry) Handler { return detectresize.New(client, settings, all, log) }),
		api.PauseOwner:    withOwners(func(all owners.Registry) Handler { return pauseowner.New(client, settings, all, log) }),
	}
}

// Names returns the names of all functions, sorted.
func Names() []string {
	names := []string{}
	for name := range constructorsOf(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler), 0) {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Environment has the settings of a process that runs one function. They come from environment variables.
type Environment struct {
	Sink      string `envconfig:"K_SINK" desc:"URL of the Broker; sift sends the events of its sweep there"`
	SinkToken string `envconfig:"DRYDOCK_SINK_TOKEN" desc:"file with sift's token for a Broker that authenticates senders"`
	api.Settings
}

// Make returns the function with the name, and the rules for events that are orders.
func Make(name api.Function, env Environment, log *slog.Logger) (Handler, serve.Orders, error) {
	if !slices.Contains(Names(), string(name)) {
		return nil, serve.Orders{}, fmt.Errorf("function %q does not exist. Set FUNCTION to one of: %s", name, strings.Join(Names(), ", "))
	}
	var send Sender
	if name == api.Sift { // all other functions answer with their events
		var err error
		if send, err = env.sender(); err != nil {
			return nil, serve.Orders{}, fmt.Errorf("function %s sends events: %w", name, err)
		}
	}
	config, err := kube.Config()
	if err != nil {
		return nil, serve.Orders{}, err
	}
	client := kube.NewClient(kube.ForFunction(config, name, env.Settings))
	handler, err := constructorsOf(client, env.Settings, send, log, 0)[name]()
	return handler, OrdersOf(client, env.Settings), err
}

// OrdersOf returns the rules for events that are orders. Their senders need a token, unless the settings trust the Broker.
func OrdersOf(client *kube.Client, settings api.Settings) serve.Orders {
	if settings.TrustBroker {
		return serve.Orders{}
	}
	return serve.Orders{Access: client}
}

// sender returns the sender to K_SINK. With DRYDOCK_SINK_TOKEN, it sends the token in that file.
func (env Environment) sender() (Sender, error) {
	if env.Sink == "" {
		return nil, errors.New("set K_SINK to the Broker's URL")
	}
	if env.SinkToken == "" {
		return serve.NewSender(env.Sink, nil), nil
	}
	// This reads the file again from time to time, because the kubelet renews the token.
	authorized, err := transport.NewBearerAuthWithRefreshRoundTripper("", env.SinkToken, serve.NewTransport())
	if err != nil {
		return nil, fmt.Errorf("reading the token in the file DRYDOCK_SINK_TOKEN: %w", err)
	}
	return serve.NewSender(env.Sink, authorized), nil
}

// F makes the function that FUNCTION names available to func's server.
type F struct {
	name    string
	handler Handler
	// trusting is true if orders need no token. func's server does not pass on the headers of a request, so F cannot check a token.
	trusting bool
	measure  *export.Export
	err      error
}

// New returns the function that FUNCTION names. func's server calls it and expects no error, so Ready and Handle return the error of New.
func New() *F {
	var env Environment
	if err := envconfig.Process("", &env); err != nil {
		return &F{err: fmt.Errorf("reading the settings: %w", err)}
	}
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(os.Stdout, nil)))
	name := os.Getenv("FUNCTION")
	handler, orders, err := Make(api.Function(name), env, log)
	if err != nil {
		return &F{err: fmt.Errorf("making the function of $FUNCTION: %w", err)}
	}
	measure, err := export.Setup("drydock-"+name, log)
	return &F{name: name, handler: handler, trusting: orders.Access == nil, measure: measure, err: err}
}

// Ready reports whether New succeeded, and returns its error.
func (f *F) Ready(context.Context) (bool, error) { return f.err == nil, f.err }

// Stop sends the remaining telemetry. func's server calls it when it stops.
func (f *F) Stop(context.Context) error {
	if f.measure != nil {
		f.measure.Shutdown()
	}
	return nil
}

// Handle passes the event to the function and returns its answer. It returns an error with an HTTP status, because func's server would
// answer 500 to any other error, and the Broker retries a 500. The trace context comes from the event, because func's server does not pass
// on the headers of a request.
func (f *F) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if f.err != nil {
		return nil, f.err
	}
	if !f.trusting && events.IsOrder(e.Type()) {
		return nil, cehttp.NewResult(http.StatusForbidden, "event %q is an order, but its sender cannot be checked here; write the annotation "+
			"%s on the StatefulSet, or set DRYDOCK_TRUST_BROKER if the Broker authenticates senders", e.ID(), events.OrderAnnotation(e.Type()))
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, serve.DefaultDeadline) // func's server sets no deadline, but sends no answer after 30 s
	defer cancel()
	ctx, received := f.measure.Receive(ctx, f.name, e, nil)
	reply, err := f.handler.Handle(ctx, e)
	result := serve.ResultOf(reply, err)
	received.End(ctx, result)
	f.measure.RecordAnswer(ctx, f.name, http.MethodPost, e.Type(), result, time.Since(start))
	switch {
	case err != nil:
		return nil, cehttp.NewResult(fault.Status(err), "%w", err)
	case reply != nil:
		telemetry.Stamp(ctx, reply)
	}
	return reply, nil
}
