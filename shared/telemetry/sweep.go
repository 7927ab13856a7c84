package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// sweepFresh is how long the figures of a sweep are shown. A tick comes each minute. If the ticks stop, or reach another process, the
// figures here are no longer true.
const sweepFresh = 5 * time.Minute

// sweep shows the figures of the latest sweep.
type sweep struct {
	mu     sync.Mutex
	latest *Sweep // nil before the first sweep of this process
	now    func() time.Time
}

func newSweep(meter metric.Meter) (*sweep, error) {
	s := &sweep{now: time.Now}
	var gauges []gauge
	var instruments []metric.Observable
	for _, part := range []func(metric.Meter) ([]gauge, error){operationGauges, memberGauges, sleepGauges, otherGauges} {
		made, err := part(meter)
		if err != nil {
			return nil, fmt.Errorf("creating the gauges of the sweep: %w", err)
		}
		gauges = append(gauges, made...)
	}
	for _, g := range gauges {
		instruments = append(instruments, g.instrument)
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.observe(o, gauges)
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("registering the gauges of the sweep: %w", err)
	}
	return s, nil
}

// SetSweep stores the figures of a sweep.
func (h *Invocation) SetSweep(figures Sweep) {
	if h == nil {
		return
	}
	h.telemetry.sweep.mu.Lock()
	defer h.telemetry.sweep.mu.Unlock()
	h.telemetry.sweep.latest = &figures
}

// observe reports the gauges to each scrape and each export.
func (s *sweep) observe(o metric.Observer, gauges []gauge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || s.now().Sub(s.latest.At) > sweepFresh {
		return
	}
	for _, g := range gauges {
		g.report(s.latest, func(value float64, attributes ...metric.ObserveOption) {
			o.ObserveFloat64(g.instrument, value, attributes...)
		})
	}
}

// Sweep has the figures of a sweep over all sets. A map without a key means that there is nothing to show for it.
type Sweep struct {
	// At is when the sweep began.
	At time.Time
	// Operations counts the operations by kind and phase. Overdue counts those whose phase has passed its deadline, by kind.
	Operations map[[2]string]int
	Overdue    map[string]int
	// Oldest is the start of the oldest unfinished operation, by kind.
	Oldest map[string]time.Time
	// MembersHeld counts held members. OldestHold is the first of their stops, zero without a held member.
	MembersHeld int
	OldestHold  time.Time
	// Awake and Asleep count sets.
	Awake, Asleep int
	// SavedMembers, SavedCPU (in cores) and SavedMemory (in bytes) are what the sleeping sets do not use now.
	SavedMembers, SavedCPU, SavedMemory float64
	// RetainedBytes is the capacity of the old volumes within their retention.
	RetainedBytes float64
	// OwnersPaused counts paused owners, by the kind of the operation that needs the pause. OldestPause is the first of their pauses.
	OwnersPaused map[string]int
	OldestPause  map[string]time.Time
	// DeadLetters counts the dead letters: events that no function accepted. StatefulSets list them.
	DeadLetters int
}

// showFunc shows a value of a gauge.
type showFunc = func(value float64, attributes ...metric.ObserveOption)

// gauge is a gauge of the sweep and the function that reports its values.
type gauge struct {
	instrument metric.Float64ObservableGauge
	report     func(s *Sweep, show showFunc)
}

func operationGauges(meter metric.Meter) ([]gauge, error) {
	operations, failed := meter.Float64ObservableGauge("drydock.operations", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations by kind and phase: the active ones, and the latest ones of each set that Failed or were Refused. "+
			"An operation that a user aborted, or whose request a user withdrew, is left out. In phase Unreadable, the record cannot be read."))
	overdue, failedOverdue := meter.Float64ObservableGauge("drydock.operations.overdue", metric.WithUnit("{operation}"),
		metric.WithDescription("Active operations whose phase has passed its deadline."))
	oldest, failedOldest := meter.Float64ObservableGauge("drydock.operation.oldest.timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time at which the oldest unfinished operation began. A set that is asleep does not count, and a wake-up "+
			"counts from its own start."))
	return []gauge{
		{operations, func(s *Sweep, show showFunc) {
			for state, n := range s.Operations {
				show(float64(n), metric.WithAttributes(kindKey.String(state[0]), phaseKey.String(state[1])))
			}
		}},
		{overdue, func(s *Sweep, show showFunc) { showEach(s.Overdue, kindKey, show) }},
		{oldest, func(s *Sweep, show showFunc) { showTimes(s.Oldest, kindKey, show) }},
	}, errors.Join(failed, failedOverdue, failedOldest)
}

func memberGauges(meter metric.Meter) ([]gauge, error) {
	held, failed := meter.Float64ObservableGauge("drydock.members.held", metric.WithUnit("{member}"),
		metric.WithDescription("Members whose pod an operation has stopped and holds."))
	oldest, failedOldest := meter.Float64ObservableGauge("drydock.member.held.timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time since which the member that is held for the longest time has been held."))
	return []gauge{
		{held, func(s *Sweep, show showFunc) { show(float64(s.MembersHeld)) }},
		{oldest, func(s *Sweep, show showFunc) {
			if !s.OldestHold.IsZero() {
				show(unix(s.OldestHold))
			}
		}},
	}, errors.Join(failed, failedOldest)
}

func sleepGauges(meter metric.Meter) ([]gauge, error) {
	sets, failed := meter.Float64ObservableGauge("drydock.sets", metric.WithUnit("{set}"),
		metric.WithDescription("StatefulSets that opted in, awake or asleep."))
	members, failedMembers := meter.Float64ObservableGauge("drydock.sleep.saved.members", metric.WithUnit("{member}"),
		metric.WithDescription("Members that do not run now, because their set is asleep."))
	cpu, failedCPU := meter.Float64ObservableGauge("drydock.sleep.saved.cpu", metric.WithUnit("{cpu}"),
		metric.WithDescription("CPUs that the members of sleeping sets would request now."))
	memory, failedMemory := meter.Float64ObservableGauge("drydock.sleep.saved.memory", metric.WithUnit("By"),
		metric.WithDescription("Memory that the members of sleeping sets would request now."))
	return []gauge{
		{sets, func(s *Sweep, show showFunc) {
			showEach(map[string]int{"awake": s.Awake, "asleep": s.Asleep}, stateKey, show)
		}},
		{members, func(s *Sweep, show showFunc) { show(s.SavedMembers) }},
		{cpu, func(s *Sweep, show showFunc) { show(s.SavedCPU) }},
		{memory, func(s *Sweep, show showFunc) { show(s.SavedMemory) }},
	}, errors.Join(failed, failedMembers, failedCPU, failedMemory)
}

func otherGauges(meter metric.Meter) ([]gauge, error) {
	at, failed := meter.Float64ObservableGauge("drydock.sweep.timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time at which the latest complete sweep began. The tick starts a sweep each minute, standalone "+
			"each 30 s."))
	retained, failedRetained := meter.Float64ObservableGauge("drydock.volumes.retained", metric.WithUnit("By"),
		metric.WithDescription("Capacity of the old volumes within their retention."))
	owners, failedOwners := meter.Float64ObservableGauge("drydock.owners.paused", metric.WithUnit("{owner}"),
		metric.WithDescription("Owners of StatefulSets that Drydock has paused or stopped, by the kind of operation that needs the pause. "+
			"Kind None: the operation has ended."))
	oldest, failedOldest := meter.Float64ObservableGauge("drydock.owner.paused.timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time of the oldest pause of an owner, by the kind of operation."))
	letters, failedLetters := meter.Float64ObservableGauge("drydock.dead_letters", metric.WithUnit("{event}"),
		metric.WithDescription("Dead letters: events that no function accepted. StatefulSets list them."))
	return []gauge{
		{at, func(s *Sweep, show showFunc) { show(unix(s.At)) }},
		{retained, func(s *Sweep, show showFunc) { show(s.RetainedBytes) }},
		{owners, func(s *Sweep, show showFunc) { showEach(s.OwnersPaused, kindKey, show) }},
		{oldest, func(s *Sweep, show showFunc) { showTimes(s.OldestPause, kindKey, show) }},
		{letters, func(s *Sweep, show showFunc) { show(float64(s.DeadLetters)) }},
	}, errors.Join(failed, failedRetained, failedOwners, failedOldest, failedLetters)
}

func showEach(counts map[string]int, key attribute.Key, show showFunc) {
	for value, n := range counts {
		show(float64(n), metric.WithAttributes(key.String(value)))
	}
}

func showTimes(times map[string]time.Time, key attribute.Key, show showFunc) {
	for value, at := range times {
		show(unix(at), metric.WithAttributes(key.String(value)))
	}
}

// unix returns the time in seconds.
func unix(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
