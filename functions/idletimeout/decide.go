package idletimeout

import (
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
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

// Decide is pure. It takes one step for one set of the group. The set that the event names comes last, because only its step
// may announce an event, and an announcement ends the work on the current event.
func Decide(in Input) plan.Plan {
	subject := in.Group.Find(in.Name)
	if subject == nil {
		return plan.Noop(api.SetGone)
	}
	for _, m := range in.Group {
		if m.BeganInFuture(in.Now) && !in.isSkipped(m) {
			return correctStart(in, m)
		}
	}
	if p := recordActivity(in, *subject); p.Kind == plan.KindDo {
		return p
	}
	group, verdicts := in.judge()
	if p := handleProbes(in, group); p.Kind == plan.KindDo {
		return p
	}
	var own plan.Plan
	for i, m := range group {
		if in.isSkipped(m) {
			continue
		}
		p := first(memberChecks, situation{in, group, m, verdicts[i]})
		if m.Set.Name == in.Name {
			own = p
			continue
		}
		if p.Kind == plan.KindDo && !endsWakeUp(m, p) {
			p.Announce = "" // sift announces the steps of other sets
			return p
		}
	}
	return own
}

// endsWakeUp reports whether the plan ends a member's wake-up. Only an event that names the member may do so, because pause-owner
// waits for the announcement. Such an event comes when the member is ready, or with the tick.
func endsWakeUp(m idle.Member, p plan.Plan) bool {
	return m.Sleep.Active() && m.Sleep.Phase == api.Waking && (p.Announce == events.Scaled || p.Announce == events.OperationFailed)
}

// reportUnreadableSleep returns an Event about a record of a sleep that cannot be read.
func reportUnreadableSleep(in Input, m idle.Member) plan.Plan {
	if m.Set.Name != in.Name {
		return plan.Noop(api.StatusInvalid)
	}
	return plan.Do(api.StatusInvalid, plan.Event(m.Set.Namespace, m.Set.Name,
		plan.Note{Warning: true, Reason: api.StatusInvalid, Message: m.SleepErr.Error(), UID: m.Set.UID}))
}

// handleAtZero starts a set that is at zero without a sleep, if the set is needed and may be woken. Otherwise it stays at zero.
func handleAtZero(in Input, group idle.Group, m idle.Member) plan.Plan {
	needed := in.Signal.reportsCurrentUse(in.Now) || in.Now.Before(m.Rules.AwakeUntil)
	if !needed || m.ReplicasAtWake() == 0 || in.Scalers[m.Set.Name] != nil { // the count of a Scaler is the user's request
		return plan.Noop(api.AtZeroAlready)
	}
	sleep := in.newSleep(m, api.Waking, idle.RequestAsked)
	sleep.Replicas = m.ReplicasAtWake()
	return wake(in, group, m, sleep, api.WakingUp, "the set is needed")
}

// startSleep starts a sleep.
func startSleep(in Input, m idle.Member, v idle.Verdict) plan.Plan {
	sleep := in.newSleep(m, api.Planned, v.Request)
	sleep.Deadline = operation.Moment(in.Now.Add(in.Settings.PlanTimeout))
	sleep.Reason, sleep.Message, sleep.Probes = api.SleepDecided, v.Why, v.Probes
	store := operation.Store(m.Set, sleep)
	if m.RetryRequested {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(api.SleepDecided, append(store.Actions(), operation.NoteOf(m.Set, sleep, false))...).
		Then(events.SleepDecided, sleep.Operation)
}

// mayStartSleep reports whether the event may start a sleep.
func (in Input) mayStartSleep() bool {
	group, verdicts := in.judge()
	for i, m := range group {
		if !verdicts[i].Awake && !m.Sleep.Active() && statefulset.Replicas(m.Set) > 0 {
			return true
		}
	}
	return false
}

// awakeDependent returns the name of a member that depends on m and is not asleep, or "". A member that is being deleted falls asleep no
// more: it counts as long as it has pods.
func awakeDependent(group idle.Group, m idle.Member) string {
	for _, other := range group {
		deleted := other.Set.DeletionTimestamp != nil && other.Set.Status.Replicas == 0
		if !deleted && slices.Contains(other.Rules.DependsOn, m.Set.Name) && !isAsleep(other) {
			return other.Set.Name
		}
	}
	return ""
}

// isAsleep reports whether the set is at zero and has no sleep in another phase.
func isAsleep(m idle.Member) bool {
	return statefulset.AtZero(m.Set) && (!m.Sleep.Active() || m.Sleep.Phase == api.Asleep)
}

// unreadyDependency returns the name of a member that m depends on and that is not ready, or "".
func unreadyDependency(group idle.Group, m idle.Member) string {
	for _, name := range m.Rules.DependsOn {
		other := group.Find(name)
		if other == nil || !other.CanWake() { // it left the group or stays at zero, so a wait would never end
			continue
		}
		if !idle.EnoughReady(other.Set, other.Sleep.Active()) {
			return name
		}
	}
	return ""
}
