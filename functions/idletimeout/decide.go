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

// Input is what Decide decides on.
type Input struct {
	Now time.Time
	// Name is the set that the event is about.
	Name   string
	Group  idle.Group // empty: the set does not exist
	Signal Signal
	// Records of sleeps by set; read where a set is at zero, asleep, or gone.
	Records  map[string][]Record
	Scalers  map[string]*v1alpha1.Scaler // those that scale sets of the group, by set
	Probes   map[string]Probed           // of the members that asked for one
	Settings api.Settings
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
}

// Signal is what an event tells beyond that there is something to look at. Its Type is activity, wake, sleep, retry, or empty.
type Signal struct {
	Type string
	At   time.Time
}

// wakes reports whether somebody uses the set, or is about to.
func (s Signal) wakes() bool { return s.Type == events.Activity || s.Type == events.Wake }

// now reports whether that is so at the time, and not long ago.
func (s Signal) now(now time.Time) bool { return s.wakes() && now.Sub(s.At) <= events.Fresh }

// asked is when somebody asked for a sleep.
func (s Signal) asked() time.Time {
	if s.Type == events.Sleep {
		return s.At
	}
	return time.Time{}
}

// Probed is what an activity probe has found.
type Probed struct {
	Active bool
	Err    error
}

// Decide is pure. It takes one step for one set of the group, those that the event does not name first: an announcement ends
// the work on an event, and is about the set that the event names.
func Decide(in Input) plan.Plan {
	if p := in.forget(); p.Kind == plan.KindDo {
		return p
	}
	subject := in.Group.Find(in.Name)
	if subject == nil {
		return plan.Noop(api.SetGone)
	}
	if p := note(in, *subject); p.Kind == plan.KindDo {
		return p
	}
	group, verdicts := in.judge()
	if p := probed(in, group); p.Kind == plan.KindDo {
		return p
	}
	var own plan.Plan
	for i, m := range group {
		p := decide(in, group, m, verdicts[i])
		if m.Set.Name == in.Name {
			own = p
			continue
		}
		if p.Kind == plan.KindDo && !ends(m, p) {
			p.Announce = "" // sift tells about the others
			return p
		}
	}
	return own
}

// ends reports whether the plan is the end of a member's wake-up. It is left to an event that names the member, because
// pause-owner waits for what that announces; such an event comes when the member is ready, or with the tick.
func ends(m idle.Member, p plan.Plan) bool {
	return m.Sleep.Active() && m.Sleep.Phase == api.Waking && (p.Announce == events.Scaled || p.Announce == events.OperationFailed)
}

// judge returns the group in the order in which it wakes, with a verdict on each member. A group without an order stays awake.
func (in Input) judge() (idle.Group, []idle.Verdict) {
	group := in.Group.InOrder()
	return group, group.Judge(in.Now, in.Signal.asked())
}

// note writes an activity down.
func note(in Input, m idle.Member) plan.Plan {
	if !in.Signal.wakes() || !statefulset.Managed(m.Set) || m.Err != nil || in.Group.Timeout() == 0 || !in.Group.Touch(m, in.Signal.At) {
		return plan.Noop(api.NotIdle)
	}
	return plan.Do(api.ActivityNoted, touch(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Signal.At).Actions()...)
}

// touch moves the last activity later, never earlier.
func touch(p *plan.Patch, m idle.Member, at time.Time) *plan.Patch {
	if at.Truncate(time.Second).After(m.Rules.LastActivity) {
		p.Annotate(api.LastActivityAnnotation, idle.Stamp(at))
	}
	return p
}

// decide takes the next step for one member.
func decide(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return plan.Noop(api.SetGone)
	case m.SleepErr != nil:
		return unreadable(in, m)
	case m.Sleep.Active():
		return continueSleep(in, group, m, v)
	case in.unreadable(m) != nil && m.Set.Name == in.Name:
		return plan.Do(api.LinkInvalid, plan.Record(m.Set.Namespace, m.Set.Name, plan.Note{Warning: true, Reason: api.LinkInvalid,
			Message: fmt.Sprintf("%v; scale the set to what it had, and delete the record", in.unreadable(m)), UID: m.Set.UID}))
	case in.lost(m) != nil:
		return wake(in, group, m, in.lost(m), api.WakingUp, "what the set tells about its sleep was lost")
	case !statefulset.Managed(m.Set):
		return plan.Noop(api.NotManaged)
	}
	if m.Busy {
		return plan.Noop(api.InProgress)
	}
	switch {
	case m.Err != nil:
		return refuse(in, m, api.RequestInvalid, m.Complaint())
	case statefulset.Replicas(m.Set) == 0:
		return atZero(in, group, m)
	case !v.Awake:
		return fallAsleep(in, group, m, v)
	case m.Rules.LastActivity.IsZero() && group.Timeout() > 0: // the timeout counts from here
		return plan.Do(api.ActivityNoted, touch(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Now).Actions()...)
	}
	return plan.Noop(api.NotIdle)
}

// unreadable tells people about a document that nobody can act on.
func unreadable(in Input, m idle.Member) plan.Plan {
	if m.Set.Name != in.Name {
		return plan.Noop(api.StatusInvalid)
	}
	return plan.Do(api.StatusInvalid, plan.Record(m.Set.Namespace, m.Set.Name,
		plan.Note{Warning: true, Reason: api.StatusInvalid, Message: m.SleepErr.Error(), UID: m.Set.UID}))
}

// atZero starts a set at zero that no sleep holds there, if it is needed and may be woken. Otherwise the set stays at zero.
func atZero(in Input, group idle.Group, m idle.Member) plan.Plan {
	needed := in.Signal.now(in.Now) || in.Now.Before(m.Rules.AwakeUntil)
	if !needed || m.Revives() == 0 || in.Scalers[m.Set.Name] != nil { // a Scaler's count is what people want
		return plan.Noop(api.AtZeroAlready)
	}
	sleep := in.sleep(m, api.Waking, idle.ForAsk)
	sleep.Replicas = m.Revives()
	return wake(in, group, m, sleep, api.WakingUp, "somebody needs it")
}

// fallAsleep begins a sleep, unless something has to be over first.
func fallAsleep(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	if in.rests(m, v) {
		return plan.Noop(api.AlreadyRefused)
	}
	if in.paused(m) { // by a person: a wake-up would end that pause
		return plan.Noop(api.SetPaused)
	}
	if left := statefulset.RollingOut(m.Set); left != "" {
		return plan.Wait(api.RolloutRunning, "%s", left)
	}
	if who := dependent(group, m); who != "" && v.Request != idle.ForPause { // a person may stop what others depend on
		return plan.Wait(api.DependentAwake, "%s depends on it and is not asleep yet", who)
	}
	if v.Request == idle.ForIdle && !cleared(in.Probes, group) {
		return plan.Noop(api.AlreadyRefused)
	}
	sleep := in.sleep(m, api.Planned, v.Request)
	sleep.Deadline = operation.Moment(in.Now.Add(in.Settings.PlanTimeout))
	sleep.Reason, sleep.Message = api.SleepDecided, v.Why
	store := operation.Store(m.Set, sleep)
	if m.Retried {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(api.SleepDecided, append(store.Actions(), operation.NoteOf(m.Set, sleep, false))...).Then(events.SleepDecided, sleep.Operation)
}

// rests reports whether the member's failed sleep is left alone for a while, and no event asks for another try.
func (in Input) rests(m idle.Member, v idle.Verdict) bool {
	return m.Rests(v, in.Now, in.Settings.SleepRetry) && !(in.Signal.Type == events.Retry && m.Set.Name == in.Name)
}

// sleep makes the document of a new sleep.
func (in Input) sleep(m idle.Member, phase api.Phase, request string) *api.Sleep {
	if m.Sleep == nil {
		return idle.NewSleep(m.Set, phase, request, 1, in.Now, in.Trace)
	}
	sleep := idle.NewSleep(m.Set, phase, request, m.Sleep.Attempt+1, in.Now, in.Trace)
	sleep.StartedBy, sleep.Starts = m.Sleep.StartedBy, m.Sleep.Starts
	return sleep
}

// mayBegin reports whether the event may be the beginning of a sleep.
func (in Input) mayBegin() bool {
	group, verdicts := in.judge()
	for i, m := range group {
		if !verdicts[i].Awake && !m.Sleep.Active() && statefulset.Replicas(m.Set) > 0 {
			return true
		}
	}
	return false
}

// toProbe are the members to ask whether somebody uses them: those of a group that sleeps if nobody does.
func (in Input) toProbe() []idle.Member {
	group, verdicts := in.judge()
	var probes []idle.Member
	for i, m := range group {
		due := verdicts[i].Request == idle.ForIdle && !m.Sleep.Active() && !in.rests(m, verdicts[i])
		if due && m.Rules.Probe != nil && statefulset.Replicas(m.Set) > 0 && statefulset.Managed(m.Set) {
			probes = append(probes, m)
		}
	}
	return probes
}

// probed handles the answers of the members that were asked: one is in use, or does not answer. The set that the event names comes
// last, because an announcement ends the work on the event.
func probed(in Input, group idle.Group) plan.Plan {
	last := slices.Clone(group)
	slices.SortStableFunc(last, func(a, b idle.Member) int { return cmp.Compare(in.rank(a), in.rank(b)) })
	for _, m := range last {
		switch found, asked := in.Probes[m.Set.Name]; {
		case !asked:
		case found.Err != nil:
			p := refuse(in, m, api.ProbeFailed, fmt.Sprintf("activity probe %s: %v; the set stays awake, it is asked again in %s",
				m.Rules.Probe, found.Err, in.Settings.SleepRetry))
			if m.Set.Name != in.Name {
				p.Announce = ""
			}
			return p
		case found.Active:
			return plan.Do(api.ActivityNoted, touch(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Now).Actions()...)
		}
	}
	return plan.Noop(api.NotIdle)
}

// rank is 1 for the set that the event names, and 0 for others.
func (in Input) rank(m idle.Member) int {
	if m.Set.Name == in.Name {
		return 1
	}
	return 0
}

// cleared reports whether every running member with a probe was asked: one that did not answer is left alone for a while,
// and keeps its group awake.
func cleared(probes map[string]Probed, group idle.Group) bool {
	return !slices.ContainsFunc(group, func(m idle.Member) bool {
		_, asked := probes[m.Set.Name]
		return m.Rules.Probe != nil && statefulset.Replicas(m.Set) > 0 && !m.Sleep.Active() && !asked
	})
}

// refuse says once why a set does not sleep.
func refuse(in Input, m idle.Member, reason api.Reason, message string) plan.Plan {
	if reason == api.RequestInvalid && m.Complained() {
		return plan.Noop(api.AlreadyRefused)
	}
	sleep := in.sleep(m, api.Refused, idle.ForIdle)
	sleep.Reason, sleep.Message, sleep.Finished = reason, message, operation.Moment(in.Now)
	if m.Sleep != nil {
		sleep.Ready = m.Sleep.Ready // since then it has been up
	}
	store := operation.Store(m.Set, sleep)
	if m.Retried {
		store.Unannotate(api.RetryAnnotation)
	}
	return plan.Do(reason, append(store.Actions(), operation.NoteOf(m.Set, sleep, true))...).Then(events.OperationFailed, sleep.Operation)
}

// dependent names a member that depends on this one and is not asleep, or is empty.
func dependent(group idle.Group, m idle.Member) string {
	for _, other := range group {
		if slices.Contains(other.Rules.DependsOn, m.Set.Name) && !asleep(other) {
			return other.Set.Name
		}
	}
	return ""
}

func asleep(m idle.Member) bool {
	return statefulset.AtZero(m.Set) && (!m.Sleep.Active() || m.Sleep.Phase == api.Asleep)
}

// dependency names a member that this one depends on and that is not ready, or is empty.
func dependency(group idle.Group, m idle.Member) string {
	for _, name := range m.Rules.DependsOn {
		other := group.Find(name)
		if other == nil || !other.Wakes() { // it left the group meanwhile, or stays at zero: waiting for it would not end
			continue
		}
		if !idle.EnoughReady(other.Set, other.Sleep.Active()) {
			return name
		}
	}
	return ""
}
