// Package engine runs Knative's event delivery in one process, for a laptop, a test or a small cluster. All parts come from
// knative.dev/eventing: the ApiServerSource adapter, a Broker's ingress, the channel's fan-out with retry, back-off and dead letters, and
// the Trigger filters. The engine adds the wiring that Knative's controllers do on a cluster:
//
//	ApiServerSource adapter ─┐
//	tick ────────────────────┼─> admission ─> ingress ─> channel ─> filter (a Trigger) ─> function
//	POST on BrokerAddress ───┘                   └──────────── reply ────────────────────────┘
//
// Two parts are not from Knative. The admission bounds the number of events in flight. The entrance of the channel responds before an event
// is delivered, so that the source's watch and replies do not wait for a chain of functions. Knative's asynchronous fan-out is no
// alternative: it starts goroutines without bound and cannot be stopped.
//
// Servers and clients use a network inside the process, with the host names of a cluster, so dead letters name the same addresses in both.
// The engine stores nothing: events in flight are lost when the process ends, and the next tick finds their work again.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/pkg/apis"
	knetwork "knative.dev/pkg/network"

	"drydock.dev/shared/api"
	"drydock.dev/shared/serve"
)

// Config is the configuration of an engine.
type Config struct {
	// Triggers define which function gets which event; see LoadTriggers.
	Triggers []*eventingv1.Trigger
	// Functions are the handlers by the name of their Knative Service. Every function that a Trigger names must be present.
	Functions map[api.Function]http.Handler
	// Source watches the cluster. If it is nil, no changes are watched.
	Source *Source
	// Tick is the time between two ticks. If it is zero, there are no ticks.
	Tick time.Duration
	// MaxInFlight is the maximum number of events in flight before more are refused. Zero means DefaultMaxInFlight.
	MaxInFlight int
	// BrokerAddress is a TCP address where clients may post events. If it is empty, there is none. Guard wraps its handler.
	BrokerAddress string
	Guard         func(http.Handler) http.Handler
	// Passed is called for each event that passes the Broker. It may be nil.
	Passed func(PassedEvent)

	Meter metric.Meter
	Log   *slog.Logger
}

const (
	// DefaultMaxInFlight keeps the process below 200 MiB of memory under a constant load of events of 20 KiB.
	DefaultMaxInFlight = 100

	// drainTimeout bounds the wait for events in flight at shutdown. shutdownGrace bounds the wait for the last responses after it.
	drainTimeout  = 6 * time.Second
	shutdownGrace = 500 * time.Millisecond

	// deliveryTimeout bounds one request inside the engine. The delivery timeout of the Triggers is shorter.
	deliveryTimeout = 90 * time.Second
)

// Engine is an in-process Broker with its source, Triggers and functions.
type Engine struct {
	config       Config
	namespace    string
	broker       string
	triggers     []*eventingv1.Trigger // with addresses
	network      *network
	gate         *admissionGate
	handler      http.Handler
	admission    http.Handler
	drainTimeout time.Duration
}

// running is true while an engine runs. Knative's packages share global state: the HTTP clients, their transport, and the environment.
var running atomic.Bool

// New returns an engine that is wired and ready to run. Only one engine can run in a process at a time.
func New(config Config) (*Engine, error) {
	if len(config.Triggers) == 0 {
		return nil, errors.New("no Triggers: no function would get an event")
	}
	if config.MaxInFlight <= 0 {
		config.MaxInFlight = DefaultMaxInFlight
	}
	first := config.Triggers[0]
	e := &Engine{config: config, namespace: first.Namespace, broker: first.Spec.Broker, network: newNetwork(), drainTimeout: drainTimeout}
	// Knative's ingress and dispatcher panic without this variable.
	if err := os.Setenv("SYSTEM_NAMESPACE", e.namespace); err != nil {
		return nil, fmt.Errorf("setting SYSTEM_NAMESPACE: %w", err)
	}
	patchTransport() // before Knative's handlers create their clients
	var err error
	if e.gate, err = newAdmissionGate(config.MaxInFlight, config.Passed, config.Meter, config.Log); err != nil {
		return nil, err
	}
	if err := e.wireDataPlane(); err != nil {
		return nil, err
	}
	return e, nil
}

// SinkURL returns the URL for events from sources and functions, which Transport reaches.
func (e *Engine) SinkURL() string { return e.ingressURL().String() }

// Transport returns the transport into the engine's network. It reaches no other network.
func (e *Engine) Transport() http.RoundTripper { return e.network.transport }

// Run runs the engine until the context ends. It then waits a few seconds for events in flight.
func (e *Engine) Run(ctx context.Context) error {
	if !running.CompareAndSwap(false, true) {
		return errors.New("another engine is running in this process; stop it first")
	}
	defer running.Store(false)
	restore := e.network.makeCurrent()
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
	e.config.Log.Info("engine runs", "triggers", len(e.config.Triggers), "source", e.config.Source != nil, "tick", e.config.Tick.String())

	select {
	case <-ctx.Done():
	case err = <-servers.failed:
	}
	stopSourcing()
	e.gate.drain(e.drainTimeout)
	stopDelivering()
	servers.stop(shutdownGrace)
	sources.Wait()
	return err
}

// servers are the engine's HTTP servers.
type servers struct {
	servers []*http.Server
	failed  chan error
}

func (e *Engine) listen() (*servers, error) {
	s := &servers{failed: make(chan error, 2)}
	if e.config.BrokerAddress != "" {
		listener, err := listenTCP(e.config.BrokerAddress)
		if err != nil {
			return nil, fmt.Errorf("opening the Broker's address: %w. Choose another address with --broker", err)
		}
		e.config.Log.Info("broker accepts events", "url", "http://"+listener.Addr().String()+e.ingressURL().Path)
		s.start(serve.NewServer(limitBody(e.guarded()), deliveryTimeout, e.config.Log), listener)
	}
	s.start(serve.NewServer(e.handler, deliveryTimeout, e.config.Log), e.network.listener)
	return s, nil
}

func (e *Engine) guarded() http.Handler {
	if e.config.Guard == nil {
		return e.admission
	}
	return e.config.Guard(e.admission)
}

// tick sends the event of a PingSource, at the start and then once per period.
func (e *Engine) tick(ctx context.Context) {
	if e.config.Tick <= 0 {
		return
	}
	sender := serve.NewSender(e.SinkURL(), e.Transport())
	ticker := time.NewTicker(e.config.Tick)
	defer ticker.Stop()
	for {
		if err := sender.Send(ctx, newTick(e.namespace)); err != nil && ctx.Err() == nil {
			e.config.Log.Warn("tick lost; the next tick finds the same work", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func listenTCP(address string) (net.Listener, error) {
	return net.Listen("tcp", address) // the listener outlives any request
}

func (s *servers) start(server *http.Server, listener net.Listener) {
	s.servers = append(s.servers, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving on %s: %w", listener.Addr(), err)
		}
	}()
}

// stop shuts the servers down. It closes connections that are still open after the grace.
func (s *servers) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}

// limitBody bounds the size of events from outside, because Knative's ingress reads a body of any size into memory.
func limitBody(next http.Handler) http.Handler { return http.MaxBytesHandler(next, serve.MaxBytes) }

// newTick returns the event of a PingSource named "tick" (knative.dev/eventing pkg/adapter/mtping).
func newTick(namespace string) event.Event {
	e := event.New()
	e.SetType(sourcesv1.PingSourceEventType)
	e.SetSource(sourcesv1.PingSourceSource(namespace, "tick"))
	e.SetID(uuid.NewString())
	e.SetTime(time.Now())
	return e
}

// Hosts of the data plane, with Knative's names on a cluster. Replies use a separate host that bypasses the admission.
const (
	ingressHost = "broker-ingress"
	repliesHost = "broker-replies"
	filterHost  = "broker-filter"
	channelHost = "default-kne-trigger-kn-channel"
)

func (e *Engine) url(host, path string) *apis.URL {
	return &apis.URL{Scheme: "http", Host: knetwork.GetServiceHostname(host, e.namespace), Path: path}
}

func (e *Engine) ingressURL() *apis.URL { return e.url(ingressHost, "/"+e.namespace+"/"+e.broker) }

// functionURL returns the address of the function's Knative Service.
func (e *Engine) functionURL(name api.Function) *apis.URL { return e.url(string(name), "") }
