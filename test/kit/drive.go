// Package kit holds the parts that Drydock's tests share. World is a namespace on a real API server, Node plays its machines, and Drive
// runs the functions without an engine, so that a test chooses the events and their order.
package kit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"knative.dev/eventing/pkg/eventfilter"
	"knative.dev/eventing/pkg/eventfilter/subscriptionsapi"

	"drydock.dev"
	"drydock.dev/deploy"
	"drydock.dev/eventsource/engine"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
)

// Drive runs the functions without an engine: a tick, then every event that follows, one after the other. There is no event source, so the
// functions work from the objects alone.
type Drive struct {
	mu        sync.Mutex
	queue     []event.Event
	functions map[api.Function]function.Handler
	// EventTypes are the types of the delivered events, in order.
	EventTypes []string
	// OnEvent is called with each event before its delivery. It may be nil.
	OnEvent func(event.Event)
	// Shuffle is a random seed. Unless it is 0, every event is delivered twice and out of order.
	Shuffle uint64
	// DropEvents discards every event that one function sends to another, so that only ticks drive an operation.
	DropEvents bool
	// Retries is how often an event is delivered to a failing function.
	Retries int
	// Telemetry traces the events as package serve does. It is off unless a test sets it.
	Telemetry *telemetry.Telemetry
	// onFailure is called when a function fails. It may be nil.
	onFailure func(context.Context, api.Function, event.Event, error)
}

// NewDrive creates the functions, each with the rights of its account only (I10). A verb that config/rbac does not
// grant fails the test.
func NewDrive(config *rest.Config, settings api.Settings, log *slog.Logger) *Drive {
	d := &Drive{Retries: 3, functions: map[api.Function]function.Handler{}, Telemetry: telemetry.Off()}
	for _, text := range function.Names() {
		name := api.Function(text)
		handler, err := function.NewHandler(name, kube.NewClient(kube.Impersonate(config, name)), settings, d, log)
		if err != nil {
			panic(err) // the settings come from the test
		}
		d.functions[name] = handler
	}
	return d
}

// Send queues an event.
func (d *Drive) Send(ctx context.Context, e event.Event) error {
	e = e.Clone()
	telemetry.Stamp(ctx, &e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.DropEvents && e.Type() != events.ObjectChanged {
		return nil
	}
	d.queue = append(d.queue, e)
	if d.Shuffle != 0 {
		d.queue = append(d.queue, e)
		rand.New(rand.NewPCG(d.Shuffle, uint64(len(d.EventTypes)))).Shuffle(len(d.queue),
			func(i, j int) { d.queue[i], d.queue[j] = d.queue[j], d.queue[i] })
	}
	return nil
}

// Tick sweeps and delivers every event that follows.
func (d *Drive) Tick(ctx context.Context) error {
	tick := event.New()
	tick.SetID("tick")
	tick.SetSource("kit")
	tick.SetType(events.Tick)
	if _, err := d.handle(ctx, api.Sift, tick); err != nil {
		return err
	}
	return d.Drain(ctx)
}

// Report gives sift the event of the event source about a StatefulSet, and delivers every event that follows. The event type is
// events.SourceDelete, for example.
func (d *Drive) Report(ctx context.Context, eventType string, set *appsv1.StatefulSet) error {
	e := event.New()
	e.SetID(string(set.UID) + "/" + set.ResourceVersion)
	e.SetSource("kit")
	e.SetType(eventType)
	e.SetExtension("kind", "StatefulSet")
	if err := e.SetData(event.ApplicationJSON, set); err != nil {
		return err
	}
	if err := d.deliver(ctx, api.Sift, e); err != nil {
		return err
	}
	return d.Drain(ctx)
}

// Drain delivers the queued events and their answers.
func (d *Drive) Drain(ctx context.Context) error {
	var failed error
	for {
		d.mu.Lock()
		if len(d.queue) == 0 {
			d.mu.Unlock()
			return failed
		}
		next := d.queue[0]
		d.queue = d.queue[1:]
		d.mu.Unlock()
		d.EventTypes = append(d.EventTypes, strings.TrimPrefix(next.Type(), "dev.drydock."))
		if d.OnEvent != nil {
			d.OnEvent(next)
		}
		functions, err := receivers(ctx, next)
		failed = errors.Join(failed, err)
		for _, f := range functions {
			failed = errors.Join(failed, d.deliver(ctx, f, next))
		}
	}
}

func (d *Drive) deliver(ctx context.Context, f api.Function, e event.Event) error {
	var err error
	for range d.Retries {
		var answer *event.Event
		if answer, err = d.handle(ctx, f, e); err == nil {
			if answer != nil {
				return d.Send(ctx, *answer)
			}
			return nil
		}
	}
	return fmt.Errorf("%s on %s: %w", f, e.Type(), err)
}

// handle calls a function with the telemetry of package serve.
func (d *Drive) handle(ctx context.Context, f api.Function, e event.Event) (*event.Event, error) {
	ctx, span := d.Telemetry.Receive(ctx, string(f), e, nil)
	answer, err := d.functions[f].Handle(ctx, e)
	span.End(ctx, serve.ResultOf(answer, err))
	if err != nil && d.onFailure != nil {
		d.onFailure(ctx, f, e, err)
	}
	if answer != nil {
		telemetry.Stamp(ctx, answer)
	}
	return answer, err
}

// shippedRoutes are the filters of the Triggers in deploy/, by function.
var shippedRoutes = sync.OnceValues(func() (map[api.Function]eventfilter.Filter, error) {
	triggers, err := engine.LoadTriggers(deploy.Triggers)
	if err != nil {
		return nil, err
	}
	routes := map[api.Function]eventfilter.Filter{}
	for _, t := range triggers {
		routes[api.Function(t.Spec.Subscriber.Ref.Name)] = subscriptionsapi.CreateSubscriptionsAPIFilters(zap.NewNop(), t.Spec.Filters)
	}
	return routes, nil
})

// receivers returns the functions to which a Broker would send the event, ordered by name. Knative's filters evaluate
// the Triggers in deploy/.
func receivers(ctx context.Context, e event.Event) ([]api.Function, error) {
	routes, err := shippedRoutes()
	if err != nil {
		return nil, err
	}
	var functions []api.Function
	for _, f := range slices.Sorted(maps.Keys(routes)) {
		if routes[f].Filter(ctx, e) != eventfilter.FailFilter {
			functions = append(functions, f)
		}
	}
	return functions, nil
}

// Drive creates functions that see only this world. They reach the API server through the saboteur, if there is one. The test fails if the
// API server refuses a request of a function or a function fails, even if it succeeds when it is called again. See Expect.
func (w *World) Drive(wrap *Saboteur) *Drive { return w.drive(wrap, w.Namespace) }

// DriveIn creates functions for the namespaces.
func (w *World) DriveIn(namespaces ...string) *Drive { return w.drive(nil, namespaces...) }

func (w *World) drive(wrap *Saboteur, namespaces ...string) *Drive {
	w.answers.once.Do(func() { w.T.Cleanup(func() { w.answers.judge(w.T) }) })
	config := rest.CopyConfig(w.Config)
	config.Wrap(w.answers.wrap)
	if wrap != nil {
		config.Wrap(wrap.Wrap)
	}
	level := slog.LevelWarn
	if testing.Verbose() && os.Getenv("DRYDOCK_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(testWriter{w.T}, &slog.HandlerOptions{Level: level}))
	settings := w.Settings
	settings.Namespaces = namespaces
	d := NewDrive(config, settings, log)
	if wrap == nil || wrap.Failure == "" { // a sabotaged function may fail
		d.onFailure = w.answers.failed
	}
	return d
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// FailedDelivery is the response of a function that did not accept an event.
type FailedDelivery struct {
	Function api.Function
	Code     int
	Text     string
}

// DeadLetter sends an event to dead-letter, as a Broker does after its last attempt at delivery.
func (d *Drive) DeadLetter(ctx context.Context, e event.Event, answer FailedDelivery) error {
	e = e.Clone()
	e.SetExtension("knativebrokerttl", 254)
	e.SetExtension("knativeerrordest", "http://"+string(answer.Function)+".drydock.svc.cluster.local")
	e.SetExtension("knativeerrorcode", answer.Code)
	e.SetExtension("knativeerrordata", base64.StdEncoding.EncodeToString([]byte(answer.Text)))
	_, err := d.functions[api.DeadLetter].Handle(ctx, e)
	return err
}
