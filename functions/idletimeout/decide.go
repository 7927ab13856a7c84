package idletimeout

import (
	"cmp"
	"fmt"
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
	Name   string
	Group  idle.Group // empty if the set does not exist
	Signal Signal
	// Records holds the records of sleeps by set. They are read if a set is at zero, asleep or gone.
	Records  map[string][]Record
	Scalers  map[string]*v1alpha1.Scaler // by the set that they scale
	Probes   map[string]ProbeResult      // by set
	Settings api.Settings
	// Trace is the traceparent of an operation that starts now. It is empty when tracing is off.
	Trace string
	// Rejected says why the API server permanently rejected a write of this event. It is empty if it did not.
	Rejected string
}

// Signal is the information that an event carries besides the name of a set. Type is activity, wake, sleep, retry, or empty.
type Signal struct {
	Type string
	At   time.Time
}

// reportsUse reports whether the event says that the set is in use, or is about to be used.
func (s Signal) reportsUse() bool { return s.Type == events.Activity || s.Type == events.Wake }

// reportsCurrentUse reports whether the event says so and is recent.
func (s Signal) reportsCurrentUse(now time.Time) bool {
	return s.reportsUse() && now.Sub(s.At) <= events.Fresh
}

// sleepRequestedAt returns when the event requested a sleep, or the zero time.
func (s Signal) sleepRequestedAt() time.Time {
	if s.Type == events.Sleep {
		return s.At
	}
	return time.Time{}
}

// ProbeResult is the answer of an activity probe.
type ProbeResult struct {
	Active bool
	Err    error
}

// Decide is pure. It takes one step for one set of the group. The set that the event names comes last, because only its step
// may announce an event, and an announcement ends the work on the current event.
func Decide(in Input) plan.Plan {
	if p := in.deleteFinishedRecord(); p.Kind == plan.KindDo {
		return p
	}
	subject := in.Group.Find(in.Name)
	if subject == nil {
		return plan.Noop(api.SetGone)
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
		p := decideMember(in, group, m, verdicts[i])
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

// judge returns the group in its wake order, and the verdict on each member. A group without a valid order stays awake.
func (in Input) judge() (idle.Group, []idle.Verdict) {
	group := in.Group.InWakeOrder()
	return group, group.Verdicts(in.Now, in.Signal.sleepRequestedAt())
}

// recordActivity stores the activity that the event reports.
func recordActivity(in Input, m idle.Member) plan.Plan {
	if !in.Signal.reportsUse() || !statefulset.Managed(m.Set) || m.Err != nil || in.Group.Timeout() == 0 ||
		!in.Group.StoresActivity(m, in.Signal.At) {
		return plan.Noop(api.NotIdle)
	}
	return plan.Do(api.ActivityNoted, setLastActivity(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Signal.At).Actions()...)
}

// setLastActivity moves the last activity of the member later, never earlier.
func setLastActivity(p *plan.Patch, m idle.Member, at time.Time) *plan.Patch {
	if at.Truncate(time.Second).After(m.Rules.LastActivity) {
		p.Annotate(api.LastActivityAnnotation, idle.FormatTime(at))
	}
	return p
}

// decideMember returns the next step for one member.
func decideMember(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return plan.Noop(api.SetGone)
	case m.SleepErr != nil:
		return reportUnreadableSleep(in, m)
	case m.Sleep.Active():
		return continueSleep(in, group, m, v)
	case in.unreadableRecord(m) != nil && m.Set.Name == in.Name:
		return plan.Do(api.LinkInvalid, plan.Record(m.Set.Namespace, m.Set.Name, plan.Note{Warning: true, Reason: api.LinkInvalid,
			Message: fmt.Sprintf("%v. Scale the set to its previous replica count, then delete the record",
				in.unreadableRecord(m)), UID: m.Set.UID}))
	case in.lostSleep(m) != nil:
		return wake(in, group, m, in.lostSleep(m), api.WakingUp, "the set lost the record of its sleep")
	case !statefulset.Managed(m.Set):
		return plan.Noop(api.NotManaged)
	}
	if m.Busy {
		return plan.Noop(api.InProgress)
	}
	switch {
	case m.Err != nil:
		return refuseSleep(in, m, api.RequestInvalid, m.InvalidMessage())
	case statefulset.Replicas(m.Set) == 0:
		return handleAtZero(in, group, m)
	case !v.Awake:
		return startSleep(in, group, m, v)
	case m.Rules.LastActivity.IsZero() && group.Timeout() > 0: // the timeout starts now
		return plan.Do(api.ActivityNoted, setLastActivity(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Now).Actions()...)
	}
	return plan.Noop(api.NotIdle)
}

// reportUnreadableSleep returns an Event about a record of a sleep that cannot be read.
func reportUnreadableSleep(in Input, m idle.Member) plan.Plan {
	if m.Set.Name != in.Name {
		return plan.Noop(api.StatusInvalid)
	}
	return plan.Do(api.StatusInvalid, plan.Record(m.Set.Namespace, m.Set.Name,
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

// startSleep starts a sleep, unless the set has to wait for something first.
func startSleep(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	if in.isBackingOff(m, v) {
		return plan.Noop(api.AlreadyRefused)
	}
	if in.isScalerPaused(m) { // by the user; a wake-up would end the user's pause
		return plan.Noop(api.SetPaused)
	}
	if left := statefulset.WhyRollingOut(m.Set); left != "" {
		return plan.Wait(api.RolloutRunning, "%s", left)
	}
	if name := awakeDependent(group, m); name != "" && v.Request != idle.RequestPaused { // the user may pause a dependency of other sets
		return plan.Wait(api.DependentAwake, "%s depends on this set and is not asleep yet", name)
	}
	if v.Request == idle.RequestIdle && !allProbed(in.Probes, group) {
		return plan.Noop(api.AlreadyRefused)
	}
	sleep := in.newSleep(m, api.Planned, v.Request)
	sleep.Deadline = operation.Moment(in.Now.Add(in.Settings.PlanTimeout))
	sleep.Reason, sleep.Message = api.SleepDecided, v.Why
	store := operation.Store(m.Set, sleep)
	if m.RetryRequested {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(api.SleepDecided, append(store.Actions(), operation.NoteOf(m.Set, sleep, false))...).
		Then(events.SleepDecided, sleep.Operation)
}

// isBackingOff reports whether the member's sleep failed recently and no event requests a retry.
func (in Input) isBackingOff(m idle.Member, v idle.Verdict) bool {
	return m.IsBackingOff(v, in.Now, in.Settings.SleepRetry) && !(in.Signal.Type == events.Retry && m.Set.Name == in.Name)
}

// newSleep returns the record of a new sleep. It takes over the attempt and start counts of the previous sleep.
func (in Input) newSleep(m idle.Member, phase api.Phase, request string) *api.Sleep {
	if m.Sleep == nil {
		return idle.NewSleep(m.Set, phase, request, 1, in.Now, in.Trace)
	}
	sleep := idle.NewSleep(m.Set, phase, request, m.Sleep.Attempt+1, in.Now, in.Trace)
	sleep.StartedBy, sleep.Starts = m.Sleep.StartedBy, m.Sleep.Starts
	return sleep
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

// membersToProbe returns the members whose activity probe decides whether the group falls asleep.
func (in Input) membersToProbe() []idle.Member {
	group, verdicts := in.judge()
	var probes []idle.Member
	for i, m := range group {
		due := verdicts[i].Request == idle.RequestIdle && !m.Sleep.Active() && !in.isBackingOff(m, verdicts[i])
		if due && m.Rules.Probe != nil && statefulset.Replicas(m.Set) > 0 && statefulset.Managed(m.Set) {
			probes = append(probes, m)
		}
	}
	return probes
}

// handleProbes acts on members that are in use or whose probe failed. The set that the event names comes last, because an
// announcement ends the work on the event.
func handleProbes(in Input, group idle.Group) plan.Plan {
	last := slices.Clone(group)
	slices.SortStableFunc(last, func(a, b idle.Member) int { return cmp.Compare(in.rank(a), in.rank(b)) })
	for _, m := range last {
		switch found, asked := in.Probes[m.Set.Name]; {
		case !asked:
		case found.Err != nil:
			p := refuseSleep(in, m, api.ProbeFailed, fmt.Sprintf("activity probe %s failed: %v. The set stays awake; the next try is in %s",
				m.Rules.Probe, found.Err, in.Settings.SleepRetry))
			if m.Set.Name != in.Name {
				p.Announce = ""
			}
			return p
		case found.Active:
			return plan.Do(api.ActivityNoted, setLastActivity(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Now).Actions()...)
		}
	}
	return plan.Noop(api.NotIdle)
}

// rank returns 1 for the set that the event names, and 0 for other sets.
func (in Input) rank(m idle.Member) int {
	if m.Set.Name == in.Name {
		return 1
	}
	return 0
}

// allProbed reports whether every running member with a probe was asked. A member whose probe failed recently is not asked, and
// keeps its group awake.
func allProbed(probes map[string]ProbeResult, group idle.Group) bool {
	return !slices.ContainsFunc(group, func(m idle.Member) bool {
		_, asked := probes[m.Set.Name]
		return m.Rules.Probe != nil && statefulset.Replicas(m.Set) > 0 && !m.Sleep.Active() && !asked
	})
}

// refuseSleep stores why a set is not put to sleep, and reports it once.
func refuseSleep(in Input, m idle.Member, reason api.Reason, message string) plan.Plan {
	if reason == api.RequestInvalid && m.InvalidReported() {
		return plan.Noop(api.AlreadyRefused)
	}
	sleep := in.newSleep(m, api.Refused, idle.RequestIdle)
	sleep.Reason, sleep.Message, sleep.Finished = reason, message, operation.Moment(in.Now)
	if m.Sleep != nil {
		sleep.ReadyAt = m.Sleep.ReadyAt // the set has been ready since then
	}
	store := operation.Store(m.Set, sleep)
	if m.RetryRequested {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(reason, append(store.Actions(), operation.NoteOf(m.Set, sleep, true))...).Then(events.OperationFailed, sleep.Operation)
}

// awakeDependent returns the name of a member that depends on m and is not asleep, or "".
func awakeDependent(group idle.Group, m idle.Member) string {
	for _, other := range group {
		if slices.Contains(other.Rules.DependsOn, m.Set.Name) && !isAsleep(other) {
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
