// Package engine runs Knative's own event machinery in one process, for a laptop, a test or a small cluster: the
// ApiServerSource adapter, a Broker's ingress, its channel's fan-out with retry, back-off and dead letters, and the
// Trigger filters, all of knative.dev/eventing. What it adds is the wiring that Knative's controllers do on a cluster:
//
//	ApiServerSource adapter ─┐
//	tick ────────────────────┼─> admission ─> ingress ─> channel ─> filter (a Trigger) ─> function
//	POST on BrokerAddress ───┘                   └──────────── reply ────────────────────────┘
//
// Two parts are not Knative's. The admission bounds how many events are under way, and the channel's entrance answers
// before the event is delivered, so that neither the source's watch nor a reply waits for a chain of functions (Knative's
// own asynchronous fan-out starts goroutines without bound and cannot be stopped).
//
// Servers and clients meet on a network inside the process, under the host names that they would have on a cluster, so a
// dead letter says the same in both. Nothing is stored: what is under way when the process ends is lost, and found again
// by the next tick.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/serve"
)

// Config is what an engine runs.
type Config struct {
	// Triggers say which function gets which event; see LoadTriggers.
	Triggers []*eventingv1.Trigger
	// Functions by the name of their Knative Service: all that the Triggers name.
	Functions map[api.Function]http.Handler
	// Source watches the cluster; nil for none.
	Source *Source
	// Tick is the time between two ticks; zero for none.
	Tick time.Duration
	// InFlight is how many events may be under way before more are refused; zero is DefaultInFlight.
	InFlight int
	// BrokerAddress is a TCP address on which events may be posted; empty for none. Guard stands before it.
	BrokerAddress string
	Guard         func(http.Handler) http.Handler
	// Passed is called for each event that passes the Broker; nil for none.
	Passed func(Passed)

	Meter metric.Meter
	Log   *slog.Logger
}

const (
	// DefaultInFlight keeps the process below 200 MiB when events of 20 KiB come as fast as they can.
	DefaultInFlight = 100

	// drainTime is how long events under way may finish at the end, serverGrace how long last answers may take then.
	drainTime   = 6 * time.Second
	serverGrace = 500 * time.Millisecond

	// deliveryTime bounds one request inside the engine; the Triggers' delivery timeout is shorter.
	deliveryTime = 90 * time.Second
)

// Engine is one in-process Broker with everything around it.
type Engine struct {
	config    Config
	namespace string
	broker    string
	triggers  []*eventingv1.Trigger // with addresses
	network   *network
	gate      *gate
	handler   http.Handler
	admission http.Handler
	drain     time.Duration
}

// running guards what is global in Knative's packages: the HTTP clients, their transport, and the environment.
var running atomic.Bool

// New wires the engine. Only one can run in a process at a time.
func New(config Config) (*Engine, error) {
	if len(config.Triggers) == 0 {
		return nil, errors.New("no Triggers: nobody would get an event")
	}
	if config.InFlight <= 0 {
		config.InFlight = DefaultInFlight
	}
	first := config.Triggers[0]
	e := &Engine{config: config, namespace: first.Namespace, broker: first.Spec.Broker, network: newNetwork(), drain: drainTime}
	// Knative's ingress and dispatcher ask for it, and panic without.
	if err := os.Setenv("SYSTEM_NAMESPACE", e.namespace); err != nil {
		return nil, fmt.Errorf("setting SYSTEM_NAMESPACE: %w", err)
	}
	patchTransport() // before Knative's handlers make their clients
	var err error
	if e.gate, err = newGate(config.InFlight, config.Passed, config.Meter, config.Log); err != nil {
		return nil, err
	}
	if err := e.wire(); err != nil {
		return nil, err
	}
	return e, nil
}

// SinkURL is where sources and functions send events, over Transport.
func (e *Engine) SinkURL() string { return e.ingressURL().String() }

// Transport reaches the engine's network, and only that.
func (e *Engine) Transport() http.RoundTripper { return e.network.transport }

// Run works until the context ends, then lets what is under way finish for a few seconds.
func (e *Engine) Run(ctx context.Context) error {
	if !running.CompareAndSwap(false, true) {
		return errors.New("another engine runs in this process; there can be only one")
	}
	defer running.Store(false)
	restore := e.network.install()
	defer restore()

	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivering()
	e.gate.open(delivering)

	servers, err := e.listen()
	if err != nil {
		return err
	}
	var sources sync.WaitGroup
	sourcing, stopSourcing := context.WithCancel(ctx)
	defer stopSourcing()
	sources.Go(func() { e.tick(sourcing) })
	if e.config.Source != nil {
		sources.Go(func() { e.config.Source.run(sourcing, e.namespace, e.SinkURL(), e.config.Log) })
	}
	e.config.Log.Info("engine runs", "triggers", len(e.config.Triggers), "source", e.config.Source != nil, "tick", e.config.Tick)

	select {
	case <-ctx.Done():
	case err = <-servers.failed:
	}
	stopSourcing()
	e.gate.drain(e.drain)
	stopDelivering()
	servers.stop(serverGrace)
	sources.Wait()
	return err
}

// servers are the engine's HTTP servers.
type servers struct {
	all    []*http.Server
	failed chan error
}

func (e *Engine) listen() (*servers, error) {
	s := &servers{failed: make(chan error, 2)}
	if e.config.BrokerAddress != "" {
		listener, err := listenTCP(e.config.BrokerAddress)
		if err != nil {
			return nil, fmt.Errorf("opening the Broker's address: %w; choose another with --broker", err)
		}
		e.config.Log.Info("broker takes events", "url", "http://"+listener.Addr().String()+e.ingressURL().Path)
		s.start(serve.NewServer(limitBody(e.guarded()), deliveryTime, e.config.Log), listener)
	}
	s.start(serve.NewServer(e.handler, deliveryTime, e.config.Log), e.network.listener)
	return s, nil
}

func (e *Engine) guarded() http.Handler {
	if e.config.Guard == nil {
		return e.admission
	}
	return e.config.Guard(e.admission)
}

// tick sends what a PingSource would, at once and then each period.
func (e *Engine) tick(ctx context.Context) {
	if e.config.Tick <= 0 {
		return
	}
	sender := serve.NewSender(e.SinkURL(), e.Transport())
	ticker := time.NewTicker(e.config.Tick)
	defer ticker.Stop()
	for {
		if err := sender.Send(ctx, newTick(e.namespace)); err != nil && ctx.Err() == nil {
			e.config.Log.Warn("tick lost, the next one makes up for it", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
