package idle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Group holds the members of a group, or one set without a group.
type Group []Member

// Timeout returns the longest idle timeout of the group. It applies to members without a timeout, too. If it is 0, the group does not
// fall asleep.
func (g Group) Timeout() time.Duration {
	var longest time.Duration
	for _, m := range g {
		if m.Err == nil {
			longest = max(longest, m.Rules.Timeout)
		}
	}
	return longest
}

// Verdicts returns the verdict on each member at the time. asked is when an event requested the group's sleep, or zero. An activity
// before a request does not keep the group awake. Anything unknown keeps it awake.
func (g Group) Verdicts(now, asked time.Time) []Verdict {
	for _, m := range g {
		if m.Sleep.Active() && m.Sleep.Request == RequestAsked && m.Sleep.Started.After(asked) {
			asked = m.Sleep.Started.Time
		}
		if at := m.Rules.SleepRequested; at.After(asked) && !at.After(now) {
			asked = at
		}
	}
	asked = asked.Truncate(time.Second) // activities have whole seconds; an activity in the same second wins
	if g.usedSince(asked) {
		asked = time.Time{} // the request is over: the next sleep is one for want of activity, which asks the probes
	}
	timeout, kept, stops := g.Timeout(), "", g.ownerStops()
	for _, m := range g {
		if why := m.reasonToStayAwake(now, asked, timeout, stops); why != "" {
			kept = m.Set.Name + " " + why
			break
		}
	}
	verdicts := make([]Verdict, len(g))
	for i, m := range g {
		verdicts[i] = m.verdict(timeout, kept, asked)
		verdicts[i].Probes = verdicts[i].Request == RequestIdle || verdicts[i].Request == RequestAsked && g.visitedSince(asked)
	}
	return verdicts
}

// visitedSince reports whether a session of a member lasted longer than until the time. Visits move its end, and store no activity. The
// record of a sleep says so for the members that have not begun theirs: its beginning counts as the request for them.
func (g Group) visitedSince(at time.Time) bool {
	return slices.ContainsFunc(g, func(m Member) bool {
		return m.Err == nil && !m.Rules.Paused && m.Rules.AwakeUntil.After(at) ||
			m.Sleep.Active() && m.Sleep.Request == RequestAsked && m.Sleep.Probes
	})
}

// usedSince reports whether a member that is not paused was used at or after the time.
func (g Group) usedSince(at time.Time) bool {
	return slices.ContainsFunc(g, func(m Member) bool { return m.Err == nil && !m.Rules.Paused && !m.lastUsed().Before(at) })
}

// StoresActivity reports whether an activity at the time has to be stored: the stored activity is older than the throttle, or the set has
// an active sleep.
func (g Group) StoresActivity(m Member, at time.Time) bool {
	last := m.Rules.LastActivity
	for _, other := range g {
		decided := other.Sleep.Active() && (other.Set.Name == m.Set.Name || other.Sleep.Request == RequestAsked)
		if decided && last.Before(other.Sleep.Started.Truncate(time.Second)) {
			return at.After(last)
		}
	}
	return at.Sub(last) >= max(Throttle(g.Timeout()), time.Second)
}

// WakeOrder sorts the group so that each member comes after its dependencies. It returns an error if the dependencies form a cycle, or
// name a set outside the group. A tenant decides how large a group is, so the time is proportional to the number of dependencies.
func (g Group) WakeOrder() (Group, error) {
	byName := slices.Clone(g)
	slices.SortFunc(byName, func(a, b Member) int { return strings.Compare(a.Set.Name, b.Set.Name) })
	o := wakeOrder{members: byName, index: map[string]int{}, state: make([]visit, len(g))}
	for i, m := range byName {
		o.index[m.Set.Name] = i
	}
	for i := range byName {
		if err := o.add(i); err != nil {
			return byName, err
		}
	}
	return o.sorted, nil
}

// wakeOrder is a topological sort, depth first.
type wakeOrder struct {
	members Group
	index   map[string]int // of members, by name
	state   []visit
	sorted  Group
}

type visit int

const (
	unseen   visit = iota
	visiting       // some of its dependencies are not sorted yet
	placed         // in the order
)

// add appends the member's dependencies and then the member, unless they are sorted already.
func (o *wakeOrder) add(i int) error {
	m := o.members[i]
	switch o.state[i] {
	case placed:
		return nil
	case visiting:
		return fmt.Errorf("%s of StatefulSet %s/%s is part of a dependency cycle", api.DependsOnAnnotation, m.Set.Namespace, m.Set.Name)
	}
	o.state[i] = visiting
	for _, name := range m.Rules.DependsOn {
		dependency, found := o.index[name]
		if !found {
			return fmt.Errorf("%s of StatefulSet %s/%s names %s, which is no opted-in member of its group %q",
				api.DependsOnAnnotation, m.Set.Namespace, m.Set.Name, name, m.Set.Labels[api.GroupLabel])
		}
		if err := o.add(dependency); err != nil {
			return err
		}
	}
	o.state[i] = placed
	o.sorted = append(o.sorted, m)
	return nil
}

// InWakeOrder returns the group sorted by WakeOrder. If there is no order, the members with dependencies get the error.
func (g Group) InWakeOrder() Group {
	sorted, err := g.WakeOrder()
	for i := range sorted {
		if err != nil && sorted[i].Err == nil && len(sorted[i].Rules.DependsOn) > 0 {
			sorted[i].Err = err
		}
	}
	return sorted
}

// Find returns the member with the name, or nil.
func (g Group) Find(name string) *Member {
	i := slices.IndexFunc(g, func(m Member) bool { return m.Set.Name == name })
	if i < 0 {
		return nil
	}
	return &g[i]
}

// VerdictAlone returns the verdict without the rest of the group. A sleeping member without a timeout stays asleep, because only
// the other members know the timeout.
func (m Member) VerdictAlone(now time.Time) Verdict {
	grouped := m.Set.Labels[api.GroupLabel] != "" && m.Rules.Timeout == 0
	if grouped && m.Sleep.Active() && m.Sleep.Phase != api.Waking && m.reasonToStayAwake(now, time.Time{}, 0, ownerStops{}) == "" {
		return Verdict{Request: RequestIdle, Why: "the state of its group is unknown"}
	}
	return Group{m}.Verdicts(now, time.Time{})[0]
}

// ownerStops are the owners that Drydock has stopped, or is about to stop, for sleeps of members of a group.
type ownerStops struct {
	owners map[types.UID]bool
	// below has the kinds of controllers below such an owner. Its operator may stop the sets of all of them, and nothing tells which they are.
	below map[string]bool
}

// ownerStops returns the stops for the group's sleeps.
func (g Group) ownerStops() ownerStops {
	stops := ownerStops{owners: map[types.UID]bool{}, below: map[string]bool{}}
	for _, m := range g {
		controller := statefulset.Controller(m.Set)
		if !m.Sleep.Active() || !m.Sleep.OwnerStops || controller == nil {
			continue
		}
		owner := cmp.Or(m.Sleep.StoppedOwner, controller.UID)
		stops.owners[owner] = true
		if owner != controller.UID {
			stops.below[controller.Kind] = true
		}
	}
	return stops
}

// reach reports whether the operator of the member may stop it, or has stopped it, because of one of the stops.
func (s ownerStops) reach(m Member) bool {
	controller := statefulset.Controller(m.Set)
	switch {
	case controller == nil:
		return false
	case s.owners[controller.UID]:
		return true
	case m.Sleep != nil && m.Sleep.StoppedOwner != "":
		return s.owners[m.Sleep.StoppedOwner]
	}
	return s.below[controller.Kind]
}

// StoppedWithSibling reports whether the operator of the member may stop it, or has stopped it, because of a stop for another member of the
// same owner.
func (g Group) StoppedWithSibling(m Member) bool { return g.ownerStops().reach(m) }
