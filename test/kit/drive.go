// Package kit is what Drydock's tests share: builders of objects, and a driver that takes the engine's place where a
// test wants to say itself which event comes when.
package kit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/client-go/rest"

	"drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
)

// Drive runs the functions without any engine: a tick, then every event that follows from it, one after the other.
// There is no event source, so whatever gets done is done from the objects alone.
type Drive struct {
	mu        sync.Mutex
	queue     []event.Event
	functions map[api.Function]function.Handler
	// Seen are the types of the events that passed, in order.
	Seen []string
	// Passed is told of each event before it is delivered; nil for nobody.
	Passed func(event.Event)
	// Shuffle, if not 0, is the seed with which every event is delivered twice and out of order.
	Shuffle uint64
	// Drop loses every event that one function sends to another: what goes on goes on by the tick.
	Drop bool
	// Retries is how often an event is delivered again when its function fails.
	Retries int
	// Telemetry follows the events, as package serve has it do; off unless a test sets it.
	Telemetry *telemetry.Telemetry
}

// NewDrive makes functions, each with its own account's rights and no other (I10): a verb that config/rbac does not grant
// fails the test.
func NewDrive(config *rest.Config, settings api.Settings, log *slog.Logger) *Drive {
	d := &Drive{Retries: 3, functions: map[api.Function]function.Handler{}, Telemetry: telemetry.Off()}
	for _, name := range function.Names() {
		handlers, err := function.Handlers(kube.NewClient(kube.As(config, api.Function(name))), settings, d, log)
		if err != nil {
			panic(err) // a test's own settings
		}
		d.functions[api.Function(name)] = handlers[api.Function(name)]
	}
	return d
}

// Send queues an event.
func (d *Drive) Send(ctx context.Context, e event.Event) error {
	e = e.Clone()
	telemetry.Stamp(ctx, &e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Drop && e.Type() != events.ObjectChanged {
		return nil
	}
	d.queue = append(d.queue, e)
	if d.Shuffle != 0 {
		d.queue = append(d.queue, e)
		rand.New(rand.NewPCG(d.Shuffle, uint64(len(d.Seen)))).Shuffle(len(d.queue), func(i, j int) { d.queue[i], d.queue[j] = d.queue[j], d.queue[i] })
	}
	return nil
}

// Tick sweeps, and delivers everything that follows.
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

// Drain delivers the queued events and those that answer them.
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
		d.Seen = append(d.Seen, strings.TrimPrefix(next.Type(), "dev.drydock."))
		if d.Passed != nil {
			d.Passed(next)
		}
		for _, f := range Receivers(next) {
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

// handle does what package serve does around a function.
func (d *Drive) handle(ctx context.Context, f api.Function, e event.Event) (*event.Event, error) {
	ctx, hop := d.Telemetry.Receive(ctx, string(f), e, nil)
	answer, err := d.functions[f].Handle(ctx, e)
	hop.End(ctx, serve.ResultOf(answer, err))
	if answer != nil {
		telemetry.Stamp(ctx, answer)
	}
	return answer, err
}

// Receivers says which functions the Triggers in deploy/ give an event to.
func Receivers(e event.Event) []api.Function {
	switch e.Type() {
	case events.ObjectChanged:
		return events.Concerns(e)
	case events.ResizeRequested:
		return []api.Function{api.DetectResize}
	case events.Retry:
		return []api.Function{api.DetectResize, api.IdleTimeout, api.CleanupPod, api.ScaleHooks}
	case events.ResizeDetected, events.RestoreCompleted, events.OperationFailed, events.SleepDecided, events.WakeDecided, events.Scaled:
		return []api.Function{api.PauseOwner}
	case events.ScaleHookCompleted, events.ScaleHookFailed:
		return []api.Function{api.ScaleHooks}
	case events.OwnerPaused:
		switch events.Purpose(e) {
		case "resize", "rollback":
			return []api.Function{api.Backup}
		case "sleep":
			return []api.Function{api.IdleTimeout}
		}
		return []api.Function{api.Backup, api.IdleTimeout}
	case events.Activity, events.Wake, events.Sleep:
		return []api.Function{api.IdleTimeout}
	case events.BackupCompleted:
		return []api.Function{api.Restore}
	}
	return nil
}
