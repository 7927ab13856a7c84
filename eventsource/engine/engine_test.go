package engine

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"knative.dev/eventing/pkg/adapter/apiserver"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/pkg/apis"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
)

// waitTimeout bounds the wait for an expected event.
const waitTimeout = 20 * time.Second

type handlerFunc func(context.Context, event.Event) (*event.Event, error)

func (f handlerFunc) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	return f(ctx, e)
}

func doNothing(context.Context, event.Event) (*event.Event, error) { return nil, nil }

// testEngine is an engine with the shipped Triggers and the functions of a test.
type testEngine struct {
	*Engine
	config Config
	stop   func() error
}

// newTestEngine prepares an engine without a source and ticks, with fast retries. Missing functions do nothing.
func newTestEngine(t *testing.T, functions map[api.Function]handlerFunc, change ...func(*Config)) *testEngine {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	tr := &testEngine{config: Config{
		Triggers: shippedTriggers(t), Functions: map[api.Function]http.Handler{}, Meter: noop.Meter{}, Log: log,
	}}
	for _, trigger := range tr.config.Triggers {
		trigger.Spec.Delivery.BackoffDelay = ptr.To("PT0.001S")
	}
	for _, name := range []api.Function{api.Sift, api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout,
		api.CleanupPod, api.ScaleFunction, api.GrowVolumes, api.DeadLetter} {
		f := functions[name]
		if f == nil {
			f = doNothing
		}
		tr.config.Functions[name] = serve.NewEventHandler(name, f, time.Minute, serve.Orders{}, telemetry.Off(), log)
	}
	for _, c := range change {
		c(&tr.config)
	}
	return tr
}

// start runs the engine until the test ends or stop is called.
func (tr *testEngine) start(t *testing.T) *testEngine {
	t.Helper()
	e, err := New(tr.config)
	if err != nil {
		t.Fatal(err)
	}
	tr.Engine = e
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	tr.stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- nil
			return err
		case <-time.After(waitTimeout):
			return errors.New("the engine does not stop")
		}
	}
	t.Cleanup(func() {
		if err := tr.stop(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// send posts the event to the Broker.
func (tr *testEngine) send(t *testing.T, e event.Event) {
	t.Helper()
	if err := serve.NewSender(tr.SinkURL(), tr.Transport()).Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(waitTimeout):
		t.Fatalf("%s did not arrive in time", what)
		panic("unreachable")
	}
}

var web = events.Ref{Namespace: "n", Name: "web", UID: "u", Operation: "o"}

// step returns the event for the next step of an operation.
func step(from api.Function, eventType string) *event.Event {
	e := events.NewStep(from, eventType, web)
	return &e
}

// replyWith returns a function that replies with the event.
func replyWith(from api.Function, eventType string) handlerFunc {
	return func(context.Context, event.Event) (*event.Event, error) {
		return step(from, eventType), nil
	}
}

// TestRepliesReachNextFunctionInOrder sends a resize through its functions.
func TestRepliesReachNextFunctionInOrder(t *testing.T) {
	passed := make(chan PassedEvent, 10)
	finished := make(chan event.Event, 1)
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Sift: func(context.Context, event.Event) (*event.Event, error) {
			e := events.NewChanged(web, "seen", api.DetectResize)
			return &e, nil
		},
		api.DetectResize: replyWith(api.DetectResize, events.ResizeDetected),
		api.Backup:       replyWith(api.Backup, events.BackupCompleted),
		api.Restore:      replyWith(api.Restore, events.RestoreCompleted),
		api.PauseOwner: func(_ context.Context, e event.Event) (*event.Event, error) {
			if e.Type() == events.RestoreCompleted {
				finished <- e
				return nil, nil
			}
			return step(api.PauseOwner, events.OwnerPaused), nil
		},
	}, func(c *Config) { c.Passed = func(p PassedEvent) { passed <- p } }).start(t)
	tr.send(t, newEvent(events.SourceUpdate, "kind", "StatefulSet"))

	last := await(t, "the end of the chain", finished)
	if ref, err := events.SetOf(last); err != nil || ref.Name != "web" || ref.Operation != "o" {
		t.Errorf("the last function got %s (%v)", last, err)
	}
	if last.Extensions()["knativebrokerttl"] != nil {
		t.Error("a function receives the Broker's hop counter")
	}
	var got []string
	for range 6 {
		p := await(t, "an event that passed", passed)
		got = append(got, p.Type+" from "+p.From)
	}
	want := []string{
		events.SourceUpdate + " from test",
		events.ObjectChanged + " from drydock.dev/sift",
		events.ResizeDetected + " from drydock.dev/detect-resize",
		events.OwnerPaused + " from drydock.dev/pause-owner",
		events.BackupCompleted + " from drydock.dev/backup",
		events.RestoreCompleted + " from drydock.dev/restore",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTransientFailureIsRetried: after retries, the reply reaches the next function.
func TestTransientFailureIsRetried(t *testing.T) {
	tries, letters := atomic.Int32{}, atomic.Int32{}
	next := make(chan event.Event, 1)
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Backup: func(context.Context, event.Event) (*event.Event, error) {
			if tries.Add(1) <= 3 {
				return nil, errors.New("not now")
			}
			return step(api.Backup, events.BackupCompleted), nil
		},
		api.Restore:    func(_ context.Context, e event.Event) (*event.Event, error) { next <- e; return nil, nil },
		api.DeadLetter: func(context.Context, event.Event) (*event.Event, error) { letters.Add(1); return nil, nil },
	}).start(t)
	tr.send(t, events.NewStep("test", events.OwnerPaused, web))
	await(t, "the reply at the next function", next)
	if tries.Load() != 4 || letters.Load() != 0 {
		t.Errorf("%d tries and %d dead letters, want 4 and none", tries.Load(), letters.Load())
	}
}

// TestUndeliverableEventGoesToDeadLetter: after a permanent error the event goes to the dead-letter function at once, after a transient
// error when all retries have failed. The event carries the address, status and error, as on a Knative cluster.
func TestUndeliverableEventGoesToDeadLetter(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		tries int32
		code  string
	}{
		"permanent error":                    {fault.Permanent(errors.New("the request makes no sense")), 1, "422"},
		"transient error that does not pass": {errors.New("the request makes no sense"), 9, "503"},
		"error that is too long for the extension": {
			fault.Permanent(errors.New("the request makes no sense" + strings.Repeat("; statefulsets is forbidden", 100))), 1, "422"},
	} {
		t.Run(name, func(t *testing.T) {
			tries := atomic.Int32{}
			letter := make(chan event.Event, 1)
			tr := newTestEngine(t, map[api.Function]handlerFunc{
				api.Backup:     func(context.Context, event.Event) (*event.Event, error) { tries.Add(1); return nil, row.err },
				api.DeadLetter: func(_ context.Context, e event.Event) (*event.Event, error) { letter <- e; return nil, nil },
			}).start(t)
			tr.send(t, events.NewStep("test", events.OwnerPaused, web))
			got := await(t, "the dead letter", letter)
			if tries.Load() != row.tries {
				t.Errorf("%d tries, want %d", tries.Load(), row.tries)
			}
			reason, err := base64.StdEncoding.DecodeString(fmt.Sprint(got.Extensions()["knativeerrordata"]))
			if err != nil || !strings.Contains(string(reason), "the request makes no sense") {
				t.Errorf("knativeerrordata %q (%v)", reason, err)
			}
			if code := fmt.Sprint(got.Extensions()["knativeerrorcode"]); code != row.code {
				t.Errorf("knativeerrorcode %s, want %s", code, row.code)
			}
			if to := fmt.Sprint(got.Extensions()["knativeerrordest"]); !strings.HasPrefix(to, "http://backup.drydock.svc.") {
				t.Errorf("knativeerrordest %s, want the function's own address", to)
			}
			if got.Type() != events.OwnerPaused {
				t.Errorf("the dead letter is %s, want the original event", got.Type())
			}
		})
	}
}

// TestEventIsAcceptedWhileFunctionIsBusy: the source does not wait for functions.
func TestEventIsAcceptedWhileFunctionIsBusy(t *testing.T) {
	busy, free := make(chan string, 2), make(chan struct{})
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Sift: func(_ context.Context, e event.Event) (*event.Event, error) {
			busy <- e.Type()
			<-free
			return nil, nil
		},
	}).start(t)
	defer close(free)
	tr.send(t, newEvent(events.SourceAdd))
	await(t, "the first event", busy)
	tr.send(t, newEvent(events.SourceUpdate))
	await(t, "the second event, while the first is handled", busy)
}

// TestShutdownCancelsHangingFunction: a function that hangs does not delay the end of the process.
func TestShutdownCancelsHangingFunction(t *testing.T) {
	busy, cancelled := make(chan struct{}, 1), make(chan struct{})
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Sift: func(ctx context.Context, _ event.Event) (*event.Event, error) {
			busy <- struct{}{}
			<-ctx.Done()
			close(cancelled)
			return nil, ctx.Err()
		},
	}).start(t)
	tr.drainTimeout = time.Millisecond
	tr.send(t, newEvent(events.SourceAdd))
	await(t, "the event", busy)
	if err := tr.stop(); err != nil {
		t.Error(err)
	}
	await(t, "the function's context to end", cancelled)
}

func (g *admissionGate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// TestShutdownFinishesRunningChain: events in flight and their replies are delivered, and new events are refused.
func TestShutdownFinishesRunningChain(t *testing.T) {
	busy, free, next := make(chan struct{}), make(chan struct{}), make(chan event.Event, 1)
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Backup: func(context.Context, event.Event) (*event.Event, error) {
			close(busy)
			<-free
			return step(api.Backup, events.BackupCompleted), nil
		},
		api.Restore: func(_ context.Context, e event.Event) (*event.Event, error) { next <- e; return nil, nil },
	}).start(t)
	tr.send(t, events.NewStep("test", events.OwnerPaused, web))
	await(t, "the event", busy)
	ended := make(chan error, 1)
	go func() { ended <- tr.stop() }()
	for !tr.gate.isClosed() { // only this test would need a channel
	}
	if err := serve.NewSender(tr.SinkURL(), tr.Transport()).Send(t.Context(), newEvent(events.SourceAdd)); err == nil {
		t.Error("a stopping engine accepted an event")
	}
	close(free)
	await(t, "the reply at the next function", next)
	if err := await(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// TestTicksAtStartAndPeriodically: the ticks look like the events of a PingSource.
func TestTicksAtStartAndPeriodically(t *testing.T) {
	ticks := make(chan event.Event, 100)
	newTestEngine(t, map[api.Function]handlerFunc{
		api.Sift: func(_ context.Context, e event.Event) (*event.Event, error) { ticks <- e; return nil, nil },
	}, func(c *Config) { c.Tick = 10 * time.Millisecond }).start(t)
	first, second := await(t, "the tick at the start", ticks), await(t, "the next one", ticks)
	if first.Type() != events.Tick || first.Source() != "/apis/v1/namespaces/drydock/pingsources/tick" || first.ID() == second.ID() {
		t.Errorf("got %s and %s", first, second)
	}
}

// TestBrokerAddressAcceptsBoundedEvents: clients on the machine may post events, up to a maximum size.
func TestBrokerAddressAcceptsBoundedEvents(t *testing.T) {
	got := make(chan event.Event, 1)
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.DetectResize: func(_ context.Context, e event.Event) (*event.Event, error) { got <- e; return nil, nil },
	}, func(c *Config) { c.BrokerAddress = freeAddress(t) })
	tr.start(t)
	tr.send(t, newEvent(events.OperationFailed)) // a response shows that the servers are running
	url := "http://" + tr.config.BrokerAddress + "/drydock/default"
	if err := serve.NewSender(url, nil).Send(t.Context(), events.NewStep("test", events.Retry, web)); err != nil {
		t.Fatal(err)
	}
	await(t, "the posted event", got)

	large := newEvent(events.Retry)
	if err := large.SetData(event.TextPlain, strings.Repeat("x", serve.MaxBytes+1)); err != nil {
		t.Fatal(err)
	}
	if err := serve.NewSender(url, nil).Send(t.Context(), large); err == nil {
		t.Error("an event over the maximum size was accepted")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // never used
	return l.Addr().String()
}

// TestStreamSendsEventsAsJSONLines: the log and the reader get the same lines.
func TestStreamSendsEventsAsJSONLines(t *testing.T) {
	var log strings.Builder
	stream := NewStream(&log)
	server := httptest.NewServer(stream)
	defer server.Close()
	response, err := http.Get(server.URL) // closed below
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	stream.Passed(PassedEvent{Type: "t", From: "f", ID: "1"})
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || log.String() != line {
		t.Fatalf("the stream has %q (%v), the log %q", line, err, log.String())
	}
	var got PassedEvent
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.Type != "t" || got.From != "f" || got.ID != "1" {
		t.Errorf("got %q (%v)", line, err)
	}
}

// TestStreamRefusesRemoteClients: the stream contains names of objects.
func TestStreamRefusesRemoteClients(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/events", nil)
	r.RemoteAddr = "10.1.2.3:4"
	w := httptest.NewRecorder()
	NewStream(nil).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("got %d, want 403", w.Code)
	}
}

// TestNewRefusesIncompleteWiring: New finds missing parts before the first event.
func TestNewRefusesIncompleteWiring(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a function is missing": {func(c *Config) { delete(c.Functions, api.Restore) }, `no function "restore"`},
		"no dead-letter sink":   {func(c *Config) { delete(c.Functions, api.DeadLetter) }, `no function "dead-letter"`},
		"no Triggers":           {func(c *Config) { c.Triggers = nil }, "no Triggers"},
		"two Brokers":           {func(c *Config) { c.Triggers[1].Spec.Broker = "other" }, "an engine has one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(newTestEngine(t, nil, row.change).config)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// TestEventsLeakNoGoroutines: Knative's filters leave a goroutine behind each time they are created, and answers that are events keep one
// until the timeout of their Trigger. An engine without events in flight has goroutines only for Run, its server, and idle connections.
func TestEventsLeakNoGoroutines(t *testing.T) {
	before, done := runtime.NumGoroutine(), make(chan struct{}, 1)
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Backup:  replyWith(api.Backup, events.BackupCompleted),
		api.Restore: func(context.Context, event.Event) (*event.Event, error) { done <- struct{}{}; return nil, nil },
	}).start(t)
	one := func() {
		tr.send(t, events.NewStep("test", events.OwnerPaused, web))
		await(t, "the reply at the next function", done)
		atRest(t, tr, math.MaxInt)
	}
	const (
		own           = 2 // Run and the server
		perConnection = 3 // two of the client, and one of the server
		inFlight      = 2 // the event and its reply, each with one connection of each client
	)
	clients := len(tr.triggers) + len(tr.network.hosts) // Knative has a client for each URL: the filter of a Trigger, or a host
	limit := before + own + perConnection*inFlight*clients
	for range limit { // one leaked goroutine for each event exceeds the limit
		one()
	}
	if after := atRest(t, tr, limit); after > limit {
		t.Errorf("%d goroutines before the engine started, %d after %d events; at most %d are for connections", before, after, limit,
			limit-own-before)
	}
}

// atRest waits until no event is in flight and at most limit goroutines are left. It returns their number.
func atRest(t *testing.T, tr *testEngine, limit int) int {
	t.Helper()
	for end := time.Now().Add(waitTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if tr.gate.inFlightCount() == 0 && runtime.NumGoroutine() <= limit {
			break
		}
	}
	return runtime.NumGoroutine()
}

// TestKnativeAcceptsConfig validates config/ with the code of Knative's webhook.
func TestKnativeAcceptsConfig(t *testing.T) {
	flags, err := feature.NewFlagsConfigFromMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := apis.WithinCreate(feature.ToContext(context.Background(), flags))
	for name, into := range map[string]interface {
		apis.Validatable
		apis.Defaultable
	}{
		"base/broker.yaml": &eventingv1.Broker{},
		"base/source.yaml": &sourcesv1.ApiServerSource{},
		"base/tick.yaml":   &sourcesv1.PingSource{},
	} {
		t.Run(name, func(t *testing.T) {
			first, _, _ := strings.Cut(readConfig(t, name), "\n---\n")
			if err := yaml.UnmarshalStrict([]byte(first), into); err != nil {
				t.Fatal(err)
			}
			into.SetDefaults(ctx)
			if problems := into.Validate(ctx); problems != nil {
				t.Error(problems)
			}
		})
	}
}

func readConfig(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../config/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStandaloneSourceWatchesSameObjectsAsKnativeSource: the standalone source watches the objects of config/base/source.yaml. By default
// it watches all namespaces, because nothing restarts it when a namespace is created or deleted.
func TestStandaloneSourceWatchesSameObjectsAsKnativeSource(t *testing.T) {
	first, _, _ := strings.Cut(readConfig(t, "base/source.yaml"), "\n---\n")
	source := &sourcesv1.ApiServerSource{}
	if err := yaml.UnmarshalStrict([]byte(first), source); err != nil {
		t.Fatal(err)
	}
	plurals := map[string]string{"StatefulSet": "statefulsets", "PersistentVolumeClaim": "persistentvolumeclaims", "Job": "jobs",
		"Pod": "pods", "Scaler": "scalers"}
	want := apiserver.Config{Namespaces: []string{""}, AllNamespaces: true, EventMode: source.Spec.EventMode}
	for _, r := range source.Spec.Resources {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		if err != nil {
			t.Fatal(err)
		}
		watch := apiserver.ResourceWatch{GVR: gv.WithResource(plurals[r.Kind])}
		if r.LabelSelector != nil {
			watch.LabelSelector = metav1.FormatLabelSelector(r.LabelSelector)
		}
		want.Resources = append(want.Resources, watch)
	}
	if diff := cmp.Diff(want, (&Source{}).adapterConfig()); diff != "" {
		t.Errorf("(-config/base/source.yaml +standalone)\n%s", diff)
	}
	some := (&Source{Namespaces: []string{"a", "b"}}).adapterConfig()
	if some.AllNamespaces || !cmp.Equal(some.Namespaces, []string{"a", "b"}) {
		t.Errorf("with namespaces: %+v", some)
	}
}
