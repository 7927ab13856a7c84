package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/metric"
)

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
