package gateway

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
)

// Set is one StatefulSet of a session.
type Set struct {
	Ref
	Status
	// Group is the name of the set's group; may be empty.
	Group string
	// Until is the end of the stored session, or zero.
	Until time.Time
	// Needed is true if the session waits for the set. Optional is true if the request marks the set as optional.
	Needed, Optional bool
}

// Session is the state of the requested sets.
type Session struct{ Sets []Set }

// Ready reports whether every needed set is ready.
func (s Session) Ready() bool {
	return len(s.Sets) > 0 && !slices.ContainsFunc(s.Sets, func(set Set) bool { return set.Needed && set.State != Ready })
}

// refused returns the problem of the first needed set that no request wakes, or nil.
func (s Session) refused() error {
	for _, set := range s.Sets {
		switch {
		case set.Needed && set.State == Paused:
			return pausedProblem(set.Ref)
		case set.Needed && set.State == Stopped:
			return stoppedProblem(set)
		}
	}
	return nil
}

// waiterKey names the site that a request waits for: the group of its first needed set that is not ready, or this set if it has no group.
// It does not come from the query, because there are many queries for the same sets.
func (s Session) waiterKey() string {
	for _, set := range s.Sets {
		switch {
		case !set.Needed || set.State == Ready:
		case set.Group != "":
			return "group " + Ref{set.Namespace, set.Group}.String()
		default:
			return set.Ref.String()
		}
	}
	return ""
}

// Unit is a group of sets that wake together, or one set alone.
type Unit struct {
	Members []Member // by name
	// Named and Optional are the names of the requested members. Both are empty if the request is for the whole group.
	Named, Optional []string
	// Missing is an optional set that does not exist or is not opted in. Such a unit has no members.
	Missing *Ref
}

// optedIn reports whether a member has an idle timeout. An invalid timeout counts, too: the unit stays awake, and visitors reach it.
func (u Unit) optedIn() bool {
	return slices.ContainsFunc(u.Members, func(m Member) bool { return m.OptedIn })
}

// timeout returns the longest idle timeout of the members. It applies to members without a timeout, too.
func (u Unit) timeout() time.Duration {
	var longest time.Duration
	for _, m := range u.Members {
		longest = max(longest, m.Timeout)
	}
	return longest
}

// needs reports whether the session waits for the member. The session does not wait for a member that no visit wakes, unless the
// request names it, or no member can be woken.
func (u Unit) needs(m Member) bool {
	switch {
	case slices.Contains(u.Named, m.Name):
		return true
	case len(u.Optional) > 0 && (len(u.Named) == 0 || slices.Contains(u.Optional, m.Name)):
		return false
	case m.State.wakes():
		return true
	}
	return !slices.ContainsFunc(u.Members, func(other Member) bool { return other.State.wakes() })
}

// SessionOf returns the session of the units.
func SessionOf(units []Unit) Session {
	var s Session
	for _, u := range units {
		if u.Missing != nil {
			statusOf := Status{State: Missing, Message: "it does not exist or is not opted in"}
			s.Sets = append(s.Sets, Set{Ref: *u.Missing, Status: statusOf, Optional: true})
		}
		for _, m := range u.Members {
			optional := slices.Contains(u.Optional, m.Name) && !slices.Contains(u.Named, m.Name)
			s.Sets = append(s.Sets, Set{
				Ref: m.Ref, Status: m.Status, Group: m.Group, Until: u.awakeUntil(), Needed: u.needs(m), Optional: optional,
			})
		}
	}
	slices.SortFunc(s.Sets, func(a, b Set) int { return compareRefs(a.Ref, b.Ref) })
	return s
}

// Input holds everything that Decide needs.
type Input struct {
	Now     time.Time
	Session time.Duration // 0 for each unit's idle timeout
	Longest time.Duration
	Units   []Unit
}

// Decide returns the writes that keep the units awake for the session. It is pure.
func Decide(in Input) plan.Plan {
	if SessionOf(in.Units).refused() != nil {
		return plan.Noop(api.StaysAsleep) // the session cannot become ready, so no set wakes
	}
	var actions []plan.Action
	for _, u := range in.Units {
		actions = append(actions, u.extend(in)...)
	}
	if len(actions) == 0 {
		return plan.Noop(api.NotIdle)
	}
	return plan.Do(api.ActivityNoted, actions...)
}

const (
	// readyTTL is how long the gateway caches a session that is ready, and waitingTTL how long it caches any other result. A
	// plugin sends a request for every request to its site, and every waiting visitor repeats it.
	readyTTL   = time.Second
	waitingTTL = 500 * time.Millisecond

	// minSlack is the minimum time between two writes of a set's session, even for short sessions.
	minSlack = 5 * time.Second
)

// extend moves the unit's awake-until later, unless the stored time covers the session. It adds slack to the time, so that a busy
// site does not write at every request. The next write is due when the slack is used up, so no session ends early.
func (u Unit) extend(in Input) []plan.Action {
	length := cmp.Or(min(in.Session, in.Longest), u.timeout()) // the owner of the set has chosen the timeout, so no limit applies
	if length == 0 {
		return nil
	}
	until := in.Now.Add(length + readyTTL)
	stamp := idle.FormatTime(until.Add(max(idle.Throttle(length), minSlack)))
	var actions []plan.Action
	for _, m := range u.membersToExtend(until) {
		actions = append(actions, plan.PatchOf(plan.StatefulSets, &m.Object).Annotate(api.AwakeUntilAnnotation, stamp).Actions()...)
	}
	return actions
}

// membersToExtend returns the members whose awake-until has to move. One member is enough for a group, but a member at zero without a sleep
// wakes only for its own awake-until.
func (u Unit) membersToExtend(until time.Time) []Member {
	var members []Member
	for _, m := range u.Members {
		if m.WakesAlone && u.needs(m) && m.AwakeUntil.Before(until) {
			members = append(members, m)
		}
	}
	if writer := u.memberToWrite(); len(members) == 0 && writer != nil && u.awakeUntil().Before(until) {
		members = append(members, *writer)
	}
	for _, m := range u.Members { // the session does not wait for an optional set, but wakes it
		if m.WakesAlone && !u.needs(m) && slices.Contains(u.Optional, m.Ref.Name) && m.AwakeUntil.Before(until) {
			members = append(members, m)
		}
	}
	return members
}

// awakeUntil returns the latest time until which an annotation of a member keeps the unit awake.
func (u Unit) awakeUntil() time.Time {
	var latest time.Time
	for _, m := range u.Members {
		if m.KeepsAwake && m.AwakeUntil.After(latest) {
			latest = m.AwakeUntil
		}
	}
	return latest
}

// memberToWrite returns the member to write to. It prefers members that are asleep, because no function looks at the change of an awake
// one. Among these, it prefers named members, then the first by name. It skips members that no visit wakes, or whose awake-until has no
// effect. It returns nil if no member is left.
func (u Unit) memberToWrite() *Member {
	rank := func(m *Member) int {
		asleep, named := m.State == Asleep, slices.Contains(u.Named, m.Name)
		switch {
		case asleep && named:
			return 0
		case asleep:
			return 1
		case named:
			return 2
		}
		return 3
	}
	var best *Member
	for i := range u.Members {
		m := &u.Members[i]
		if m.KeepsAwake && m.State.wakes() && (best == nil || rank(m) < rank(best)) {
			best = m
		}
	}
	return best
}

func pausedProblem(ref Ref) error {
	return problem(http.StatusConflict,
		"StatefulSet %s is paused, so no request wakes it. Remove annotation %s from it", ref, api.PausedAnnotation)
}

// stoppedProblem returns the problem of a set at zero that no visit wakes.
func stoppedProblem(set Set) error {
	return problem(http.StatusConflict,
		"StatefulSet %s is stopped, so no request wakes it: %s. Scale it up. For a set without an owner, annotation %s lets a visit wake it",
		set.Ref, set.Message, api.WakeReplicasAnnotation)
}

// Types of the events of a stream (sablierapp/sablier internal/api/instance_events.go).
const (
	eventCreated = "created"
	eventUpdated = "updated"
	eventRemoved = "removed"
	eventStarted = "started"
	eventStopped = "stopped"
)

// Change is a difference of one set between two observations.
type Change struct {
	Type string
	Set  Set
}

// changes compares two observations. Sets of the first observation count as created, as in a watch. Without types it returns changes
// of every type.
func changes(before map[Ref]Set, after []Set, types []string) []Change {
	var found []Change
	add := func(kind string, set Set) {
		if len(types) == 0 || slices.Contains(types, kind) {
			found = append(found, Change{kind, set})
		}
	}
	left := maps.Clone(before)
	for _, set := range after {
		old, known := before[set.Ref]
		if set.State != Missing || old.State == Missing { // an optional set that is gone is in both
			delete(left, set.Ref)
		}
		switch {
		case set.State == Missing:
		case !known || old.State == Missing:
			add(eventCreated, set)
		case old.Replicas > 0 && set.Replicas == 0:
			add(eventStopped, set)
		case old.Replicas == 0 && set.Replicas > 0:
			add(eventStarted, set)
		case old.Status != set.Status:
			add(eventUpdated, set)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(left), compareRefs) {
		set := left[ref]
		set.State, set.Ready = Stopped, 0
		add(eventRemoved, set)
		add(eventStopped, set)
	}
	return found
}

// byRef returns the sets by name.
func byRef(sets []Set) map[Ref]Set {
	by := map[Ref]Set{}
	for _, set := range sets {
		by[set.Ref] = set
	}
	return by
}
