package gateway

import (
	"cmp"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
)

// Set is one StatefulSet of a session.
type Set struct {
	Ref
	Standing
	// Group is empty for a set that has none.
	Group string
	// Until is the end of the session that is written on it; zero if none is.
	Until time.Time
	// Needed is false for a set that the session does not wait for, Optional for one that the request asked for so.
	Needed, Optional bool
}

// Session is what a request learns.
type Session struct{ Sets []Set }

// Ready reports whether every set that is needed can be used.
func (s Session) Ready() bool {
	return len(s.Sets) > 0 && !slices.ContainsFunc(s.Sets, func(set Set) bool { return set.Needed && set.State != Ready })
}

// refused returns the problem of the first set that is needed and that no request wakes, or nil.
func (s Session) refused() error {
	for _, set := range s.Sets {
		switch {
		case set.Needed && set.State == Paused:
			return paused(set.Ref)
		case set.Needed && set.State == Stopped:
			return stopped(set)
		}
	}
	return nil
}

// Unit is what wakes together: a group of a namespace, or a set alone.
type Unit struct {
	Members []Member // by name
	// Named and Optional are the names of those that were asked for; both are empty for the whole group.
	Named, Optional []string
	// Missing is an optional set that cannot be woken. Such a unit has no members.
	Missing *Ref
}

// optedIn reports whether the owner of a member has written that a clock puts the unit to sleep. One that cannot be understood
// counts: its unit is kept awake, and visitors are to get there.
func (u Unit) optedIn() bool {
	return slices.ContainsFunc(u.Members, func(m Member) bool { return m.OptedIn })
}

// timeout returns the longest idle timeout of the members; it holds for those without one of their own.
func (u Unit) timeout() time.Duration {
	var longest time.Duration
	for _, m := range u.Members {
		longest = max(longest, m.Timeout)
	}
	return longest
}

// needs reports whether the session waits for the member. Nothing waits for a member that no visit wakes: the others of its group
// go on without it, unless the request names it, or no member can be woken.
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

// Judge returns how the session stands.
func Judge(units []Unit) Session {
	var s Session
	for _, u := range units {
		if u.Missing != nil {
			standing := Standing{State: Missing, Message: "it does not exist or is not opted in"}
			s.Sets = append(s.Sets, Set{Ref: *u.Missing, Standing: standing, Optional: true})
		}
		for _, m := range u.Members {
			optional := slices.Contains(u.Optional, m.Name) && !slices.Contains(u.Named, m.Name)
			s.Sets = append(s.Sets, Set{
				Ref: m.Ref, Standing: m.Standing, Group: m.Group, Until: u.awakeUntil(), Needed: u.needs(m), Optional: optional,
			})
		}
	}
	slices.SortFunc(s.Sets, func(a, b Set) int { return compareRefs(a.Ref, b.Ref) })
	return s
}

// Input is what the decision rests on.
type Input struct {
	Now     time.Time
	Session time.Duration // 0: each unit's idle timeout
	Longest time.Duration
	Units   []Unit
}

// Decide says what to write so that the units are awake for the session. It is pure.
func Decide(in Input) plan.Plan {
	if Judge(in.Units).refused() != nil {
		return plan.Noop(api.StaysAsleep) // it could not be used, so nothing wakes for it
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
	// remembered is how long the gateway relies on what it saw of a session that is ready, and rememberedWaiting on anything
	// else. A plugin asks at every request to its site, and each visitor who waits asks again.
	remembered        = time.Second
	rememberedWaiting = 500 * time.Millisecond

	// leastSlack is the least time between two writes of a set's session, however short the sessions are.
	leastSlack = 5 * time.Second
)

// extend moves the unit's deadline later, unless what is written covers the session already. So that a busy site does not
// write at every request, the deadline gets a slack on top: the next write is due when that is used up, and no session
// ends early for a write that was left out.
func (u Unit) extend(in Input) []plan.Action {
	length := min(cmp.Or(in.Session, u.timeout()), in.Longest)
	if length == 0 {
		return nil
	}
	until := in.Now.Add(length + remembered)
	stamp := idle.Stamp(until.Add(max(idle.Throttle(length), leastSlack)))
	var actions []plan.Action
	for _, m := range u.toWrite(until) {
		actions = append(actions, plan.PatchOf(plan.StatefulSets, &m.Object).Annotate(api.AwakeUntilAnnotation, stamp).Actions()...)
	}
	return actions
}

// toWrite returns the members whose deadline has to be later. One is enough, because a group is awake together: but a member at
// zero that Drydock did not put to sleep wakes for its own deadline only.
func (u Unit) toWrite(until time.Time) []Member {
	var members []Member
	for _, m := range u.Members {
		if m.Alone && u.needs(m) && m.AwakeUntil.Before(until) {
			members = append(members, m)
		}
	}
	if writer := u.writer(); len(members) == 0 && writer != nil && u.awakeUntil().Before(until) {
		members = append(members, *writer)
	}
	return members
}

// awakeUntil returns until when a member's annotation keeps the unit awake.
func (u Unit) awakeUntil() time.Time {
	var latest time.Time
	for _, m := range u.Members {
		if m.Keeps && m.AwakeUntil.After(latest) {
			latest = m.AwakeUntil
		}
	}
	return latest
}

// writer returns the member to write on: one that was named, else the first by name; nil if a deadline keeps none awake. A
// member that no visit wakes is not written on.
func (u Unit) writer() *Member {
	var first *Member
	for i := range u.Members {
		m := &u.Members[i]
		switch {
		case !m.Keeps || !m.State.wakes():
		case slices.Contains(u.Named, m.Name):
			return m
		case first == nil:
			first = m
		}
	}
	return first
}
