package wakegateway

import (
	"cmp"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// State is what a set is doing, in words for people.
type State string

const (
	Asleep State = "asleep"
	Waking State = "waking"
	Ready  State = "ready"
	Failed State = "failed"
	Paused State = "paused"
)

// Set is one StatefulSet of a session.
type Set struct {
	Ref
	State State
	// Ready of Want replicas are ready.
	Ready, Want int32
	// Message says why, where the state alone does not.
	Message string
	// Needed is false for a paused set that the session goes without.
	Needed bool
}

// Session is what a request gets to know.
type Session struct{ Sets []Set }

// Ready reports whether all that is needed can be used.
func (s Session) Ready() bool {
	return len(s.Sets) > 0 && !slices.ContainsFunc(s.Sets, func(set Set) bool { return set.Needed && set.State != Ready })
}

// refused says which set the session cannot have.
func (s Session) refused() error {
	i := slices.IndexFunc(s.Sets, func(set Set) bool { return set.Needed && set.State == Paused })
	if i < 0 {
		return nil
	}
	return paused(s.Sets[i].Ref)
}

// Unit is what wakes together: a group of a namespace, or a set alone.
type Unit struct {
	Members idle.Group // by name
	// Named are the names of those that were asked for; empty for the whole group.
	Named []string
}

// optedIn reports whether some owner has written that a clock puts the unit to sleep. One that cannot be understood counts:
// its unit is kept awake, and people who come are to get there.
func (u Unit) optedIn() bool {
	return slices.ContainsFunc(u.Members, func(m idle.Member) bool {
		_, ok := m.Set.Annotations[api.IdleTimeoutAnnotation]
		return ok
	})
}

// needs reports whether the session cannot be without the member. Paused members sleep by themselves and keep nobody, so
// the others of their group go on without them, unless somebody asked for just that one, or all are paused.
func (u Unit) needs(m idle.Member) bool {
	others := slices.ContainsFunc(u.Members, func(other idle.Member) bool { return !isPaused(other) })
	return !isPaused(m) || !others || slices.Contains(u.Named, m.Set.Name)
}

func refOf(m idle.Member) Ref { return Ref{m.Set.Namespace, m.Set.Name} }

func isPaused(m idle.Member) bool { return m.Err == nil && m.Rules.Paused }

// Judge says how the session stands.
func Judge(units []Unit) Session {
	var s Session
	for _, u := range units {
		for _, m := range u.Members {
			set := standing(m)
			set.Needed = u.needs(m)
			s.Sets = append(s.Sets, set)
		}
	}
	slices.SortFunc(s.Sets, func(a, b Set) int { return compareRefs(a.Ref, b.Ref) })
	return s
}

// standing says what the member does. One that is about to sleep is asleep, however many of its pods are still there.
func standing(m idle.Member) Set {
	s := Set{Ref: refOf(m), Ready: m.Set.Status.ReadyReplicas, Want: sts.Replicas(m.Set)}
	sleeps := m.Nap.Active() && m.Nap.Phase != api.Waking
	if m.Nap != nil && s.Want == 0 {
		s.Want = m.Nap.Replicas
	}
	switch {
	case isPaused(m):
		s.State = Paused
	case !sleeps && sts.Replicas(m.Set) > 0 && sts.Ready(m.Set):
		s.State = Ready
	case failed(m):
		s.State, s.Message = Failed, m.Nap.Message
	case sleeps:
		s.State = Asleep
	case sts.Replicas(m.Set) == 0 && !m.Nap.Active():
		s.State, s.Message = Asleep, stopped(m)
	default:
		s.State = Waking
	}
	return s
}

// failed reports whether the set's wake-up was given up. A sleep that failed before leaves a set that is up.
func failed(m idle.Member) bool {
	return m.Nap != nil && m.Nap.Phase == api.Failed && (m.Nap.FailedAt == api.Waking || sts.Replicas(m.Set) == 0)
}

// stopped says who stopped a set that has no sleep of its own.
func stopped(m idle.Member) string {
	if resize, err := api.LoadStatus(m.Set); err == nil && resize.Active() {
		return "its volumes are being resized"
	}
	if owner := sts.Controller(m.Set); owner != nil {
		return "its " + owner.Kind + " has scaled it to zero"
	}
	if m.Err == nil && m.Rules.WakeReplicas == 0 {
		return "somebody else has scaled it to zero; " + api.WakeReplicasAnnotation + " says how many replicas it wakes with"
	}
	return ""
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

// extend moves the unit's deadline later, unless what is written covers the session already. So that a busy site does not
// write at every request, the deadline gets the throttle on top: the next write is due when that is used up, and no session
// ends early for a write that was left out. One member is enough, because a group is awake together.
func (u Unit) extend(in Input) []plan.Action {
	length := min(cmp.Or(in.Session, u.Members.Timeout()), in.Longest)
	until := in.Now.Add(length + remembered)
	m := u.writer()
	if length == 0 || m == nil || !u.awakeUntil().Before(until) {
		return nil
	}
	slack := max(idle.Throttle(length), time.Second) // a stamp has whole seconds
	return plan.PatchOf(plan.StatefulSets, m.Set).Annotate(api.AwakeUntilAnnotation, idle.Stamp(until.Add(slack))).Actions()
}

// awakeUntil is until when something keeps the unit awake by that annotation.
func (u Unit) awakeUntil() time.Time {
	var latest time.Time
	for _, m := range u.Members {
		if keeps(m) && m.Rules.AwakeUntil.After(latest) {
			latest = m.Rules.AwakeUntil
		}
	}
	return latest
}

// writer is the member to write on: one that was named, else the first by name; nil if there is none that a deadline keeps
// awake.
func (u Unit) writer() *idle.Member {
	var first *idle.Member
	for i := range u.Members {
		m := &u.Members[i]
		switch {
		case !keeps(*m):
		case slices.Contains(u.Named, m.Set.Name):
			return m
		case first == nil:
			first = m
		}
	}
	return first
}

// keeps reports whether a deadline on the member keeps its group awake: it is not paused, and what is written on it can be
// understood. Where it cannot, the set is awake anyway, and who cannot read must not write.
func keeps(m idle.Member) bool { return m.Err == nil && m.NapErr == nil && !m.Rules.Paused }
