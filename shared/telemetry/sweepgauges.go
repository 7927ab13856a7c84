package telemetry

import (
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

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
