package idletimeout

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
)

// Input holds everything that Decide needs: the observed objects, the time, the settings and the event.
type Input struct {
	Now time.Time
	// Name is the set that the event names.
	Name     string
	Group    idle.Group // empty if the set does not exist
	Signal   Signal
	Scalers  map[string]*v1alpha1.Scaler // by the set that they scale
	Probes   map[string]ProbeResult      // by set
	Settings api.Settings
	// Trace is the traceparent of an operation that starts now. It is empty when tracing is off.
	Trace string
	// Failures are the failed writes of this event.
	Failures plan.Failures
}

// ProbeResult is the answer of an activity probe.
type ProbeResult struct {
	Active bool
	Err    error
}

// isSkipped reports whether the member has to wait for its own event, because a write for it was rejected in this event. The other
// members continue without it.
func (in Input) isSkipped(m idle.Member) bool {
	return m.Set.Name != in.Name && in.Failures.Of(plan.StatefulSets, m.Set.Name) != nil
}

// judge returns the group in its wake order, and the verdict on each member. A group without a valid order stays awake.
func (in Input) judge() (idle.Group, []idle.Verdict) {
	group := in.Group.InWakeOrder()
	return group, group.Verdicts(in.Now, in.Signal.sleepRequestedAt())
}
