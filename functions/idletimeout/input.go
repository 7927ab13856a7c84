package idletimeout

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
)

// Input holds everything that Decide needs: the observed objects, the time, the settings and the event.
type Input struct {
	Now time.Time
	// Name is the set that the event names.
	Name   string
	Group  idle.Group // empty if the set does not exist
	Signal Signal
	// Records holds the records of sleeps by set. They are read if a set is at zero, asleep or gone.
	Records map[string][]Record
	Scalers map[string]*v1alpha1.Scaler // by the set that they scale
	// Unrecorded holds the paused Scalers of sets that have the record of a sleep but lost the record of their Scaler. By set.
	Unrecorded map[string]*v1alpha1.Scaler
	Probes     map[string]ProbeResult // by set
	Settings   api.Settings
	// Trace is the traceparent of an operation that starts now. It is empty when tracing is off.
	Trace string
	// Rejected says why the API server permanently rejected writes of this event: by the set that the write was for, or by the
	// ControllerRevision that it should have deleted.
	Rejected map[string]string
	// RejectedRecords says why the API server permanently rejected ControllerRevisions of this event, by the set whose sleep they record.
	RejectedRecords map[string]string
}

// Record is the ControllerRevision that holds a copy of a sleep. It is created before the set is scaled to zero, and deleted after
// the wake-up. With it the replicas are restored (I4) even if the set loses its annotation or its opt-in label.
type Record struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
}

// ProbeResult is the answer of an activity probe.
type ProbeResult struct {
	Active bool
	Err    error
}

// isRejected reports whether the API server permanently rejected a write for the member in this event.
func (in Input) isRejected(m idle.Member) bool { return in.Rejected[m.Set.Name] != "" }

// isSkipped reports whether the member has to wait for its own event, because a write for it was rejected in this event. The other
// members continue without it.
func (in Input) isSkipped(m idle.Member) bool { return in.isRejected(m) && m.Set.Name != in.Name }

// judge returns the group in its wake order, and the verdict on each member. A group without a valid order stays awake.
func (in Input) judge() (idle.Group, []idle.Verdict) {
	group := in.Group.InWakeOrder()
	return group, group.Verdicts(in.Now, in.Signal.sleepRequestedAt())
}
