package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/eventsource/gateway/share"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// observeTimeout limits one observation, so that a hanging API server does not block requests forever.
const observeTimeout = 10 * time.Second

// keepAwake extends the session and returns it, both from the same observation of the sets. Requests for the same sets take turns:
// they share an observation for a while, and a written session covers all of them.
func (g *Gateway) keepAwake(caller context.Context, query Query) (session Session, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(caller, observeTimeout)
	defer cancel()
	entry, err := g.cache.Acquire(ctx, query.String())
	if err != nil {
		return Session{}, false, err
	}
	defer entry.Release()
	again := false
	_, err = g.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		units, err := g.cachedUnits(ctx, entry, query, again)
		again = true // after a write or a conflict the observation is stale
		if err != nil {
			return plan.Plan{}, err
		}
		session = SessionOf(units)
		p := Decide(Input{Now: time.Now(), Session: query.Session, Longest: g.options.LongestSession, Units: units})
		wrote = wrote || p.Kind == plan.KindDo
		return p, nil
	})
	if err != nil && ctx.Err() == nil {
		entry.Put(nil, err, time.Now().Add(waitingTTL))
	}
	return session, wrote && err == nil, err
}

// observeInTurn limits how many observations run at the same time: callers choose the names, and each choice may read a large group.
func (g *Gateway) observeInTurn(ctx context.Context, query Query) ([]Unit, error) {
	select {
	case g.reads <- struct{}{}:
		defer func() { <-g.reads }()
		return g.observe(ctx, query)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to read the sets: %w", ctx.Err())
	}
}

// cachedUnits returns the cached observation, or reads the sets again.
func (g *Gateway) cachedUnits(ctx context.Context, entry *share.Entry[[]Unit], query Query, again bool) ([]Unit, error) {
	now := time.Now()
	if units, err, ok := entry.Get(now); ok && !again {
		return units, err
	}
	units, err := g.observeInTurn(ctx, query)
	switch {
	case ctx.Err() != nil: // the caller disconnected, or the time is over: the result is unknown
	case err == nil && SessionOf(units).Ready():
		entry.Put(units, nil, now.Add(readyTTL))
	default:
		entry.Put(units, err, now.Add(waitingTTL))
	}
	return units, err
}

// peek returns the units without extending the session.
func (g *Gateway) peek(caller context.Context, query Query) ([]Unit, error) {
	ctx, cancel := context.WithTimeout(caller, observeTimeout)
	defer cancel()
	entry, err := g.cache.Acquire(ctx, query.String())
	if err != nil {
		return nil, err
	}
	defer entry.Release()
	return g.cachedUnits(ctx, entry, query, false)
}

// observe reads the requested units. All of them are opted in.
func (g *Gateway) observe(ctx context.Context, query Query) ([]Unit, error) {
	switch {
	case query.All:
		members, err := g.list(ctx, "", api.ManagedLabel+"=true")
		return optedIn(byGroup(members)), err
	case len(query.Sets) == 0:
		return g.observeGroup(ctx, query.Group)
	}
	var units []Unit
	for _, name := range query.Sets {
		err := g.addNamed(ctx, &units, name)
		switch {
		case err == nil:
		case name.Optional && isProblem(err):
			units = append(units, Unit{Missing: &name.Ref})
		default:
			return nil, err
		}
	}
	return units, nil
}

// addNamed adds the group of a named set to the units, unless it is among them.
func (g *Gateway) addNamed(ctx context.Context, units *[]Unit, name Name) error {
	u := unitOf(*units, name.Ref)
	if u == nil {
		set, err := g.getSet(ctx, name.Ref)
		if err != nil {
			return err
		}
		members, err := g.readGroup(ctx, set)
		if err != nil {
			return err
		}
		fresh := Unit{Members: members}
		if !fresh.optedIn() {
			return setNotFound(name.Ref, "no set of its group has annotation "+api.IdleTimeoutAnnotation)
		}
		*units = append(*units, fresh)
		u = &(*units)[len(*units)-1]
	}
	if name.Optional {
		u.Optional = append(u.Optional, name.Name)
	} else {
		u.Named = append(u.Named, name.Name)
	}
	return nil
}

// getSet reads a set. It returns a problem if the set does not exist or is not opted in.
func (g *Gateway) getSet(ctx context.Context, ref Ref) (*appsv1.StatefulSet, error) {
	if !g.servesNamespace(ref.Namespace) {
		return nil, setNotFound(ref, "its namespace is not in DRYDOCK_NAMESPACES")
	}
	set := &appsv1.StatefulSet{}
	found, err := g.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, setNotFound(ref, "it does not exist")
	case !statefulset.Managed(set):
		return nil, setNotFound(ref, "it lacks label "+api.ManagedLabel+"=true")
	}
	return set, nil
}

// servesNamespace reports whether this Drydock serves the namespace.
func (g *Gateway) servesNamespace(namespace string) bool {
	return len(g.namespaces) == 0 || slices.Contains(g.namespaces, namespace)
}

// readGroup reads the group of a set.
func (g *Gateway) readGroup(ctx context.Context, set *appsv1.StatefulSet) ([]Member, error) {
	self := memberOf(set)
	if self.Group == "" {
		return []Member{self}, nil
	}
	members, err := g.list(ctx, set.Namespace, groupSelector(self.Group))
	if err == nil && !(Unit{Members: members}).contains(self.Ref) { // the set left its group between the two reads
		members = append(members, self)
	}
	return members, err
}

// observeGroup reads a group.
func (g *Gateway) observeGroup(ctx context.Context, group Ref) ([]Unit, error) {
	if !g.servesNamespace(group.Namespace) {
		return nil, groupNotFound(group, nil, "its namespace is not in DRYDOCK_NAMESPACES")
	}
	members, err := g.list(ctx, group.Namespace, groupSelector(group.Name))
	if err != nil {
		return nil, err
	}
	if u := (Unit{Members: members}); u.optedIn() {
		return []Unit{u}, nil
	}
	if !g.token.Required() { // anonymous callers do not learn the names of other groups
		return nil, groupNotFound(group, nil, "none of its sets is opted in")
	}
	others, err := g.list(ctx, group.Namespace, api.ManagedLabel+"=true")
	if err != nil {
		return nil, err
	}
	return nil, groupNotFound(group, groupsOf(optedIn(byGroup(others))), "none of its sets is opted in")
}

// list reads sets, sorted by namespace and name. Without a namespace it reads the sets of every namespace that this Drydock serves.
func (g *Gateway) list(ctx context.Context, namespace, selector string) ([]Member, error) {
	namespaces := []string{namespace}
	if namespace == "" && len(g.namespaces) > 0 {
		namespaces = g.namespaces
	}
	var members []Member
	for _, namespace := range namespaces {
		err := kube.Pages(ctx, g.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				members = append(members, memberOf(&l.Items[i]))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return compareRefs(a.Ref, b.Ref) })
	return members, nil
}

// byGroup splits members into units that wake together. The members have to be sorted by namespace and name.
func byGroup(members []Member) []Unit {
	var units []Unit
	places := map[Ref]int{} // index of a group's unit
	for _, m := range members {
		place, known := places[Ref{m.Namespace, m.Group}]
		if m.Group == "" || !known {
			place = len(units)
			units = append(units, Unit{})
			places[Ref{m.Namespace, m.Group}] = place
		}
		units[place].Members = append(units[place].Members, m)
	}
	return units
}

// membersOf returns the number of the units' members.
func membersOf(units []Unit) int {
	n := 0
	for _, u := range units {
		n += len(u.Members)
	}
	return n
}

// optedIn removes the units without an idle timeout.
func optedIn(units []Unit) []Unit {
	return slices.DeleteFunc(units, func(u Unit) bool { return !u.optedIn() })
}

// groupsOf returns the names of the units' groups, sorted.
func groupsOf(units []Unit) []string {
	groups := []string{}
	for _, u := range units {
		if first := u.Members[0]; first.Group != "" {
			groups = append(groups, first.Namespace+"/"+first.Group)
		}
	}
	slices.Sort(groups)
	return groups
}

// unitOf returns the unit with the set, or nil.
func unitOf(units []Unit, ref Ref) *Unit {
	i := slices.IndexFunc(units, func(u Unit) bool { return u.contains(ref) })
	if i < 0 {
		return nil
	}
	return &units[i]
}

// contains reports whether the set is a member of the unit.
func (u Unit) contains(ref Ref) bool {
	return slices.ContainsFunc(u.Members, func(m Member) bool { return m.Ref == ref })
}

func groupSelector(group string) string {
	return api.ManagedLabel + "=true," + api.GroupLabel + "=" + group
}
