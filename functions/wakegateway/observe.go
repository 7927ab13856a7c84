package wakegateway

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Pauses between two looks of a request that waits.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = time.Second
)

// wait looks until the session is ready, or can never be. Each look keeps the session alive, so that it is whole when the
// sets are ready at last. Once it has begun to wait it goes on over errors that may pass.
func (g *Gateway) wait(caller context.Context, ask Ask) (Session, error) {
	ctx, cancel := context.WithTimeout(caller, ask.Timeout)
	defer cancel()
	session, err := g.look(ctx, ask)
	if err != nil && ctx.Err() != nil {
		return session, gaveUp(caller, ask, session)
	}
	for pause := firstPause; goesOn(session, err); pause = min(pause*3/2, longestPause) {
		select {
		case <-ctx.Done():
			return session, gaveUp(caller, ask, session)
		case <-g.ending.Done():
			return session, stopping()
		case <-time.After(pause):
		}
		next, failed := g.look(ctx, ask)
		switch {
		case failed == nil:
			session = next
		case isProblem(failed):
			return session, failed
		}
	}
	return session, err
}

func goesOn(session Session, err error) bool {
	return err == nil && !session.Ready() && session.refused() == nil
}

// gaveUp says whose patience is at its end.
func gaveUp(caller context.Context, ask Ask, session Session) error {
	if caller.Err() != nil {
		return gone()
	}
	return timedOut(ask, session)
}

// look keeps the session alive and says how it stands, by one and the same state of the sets. A conflict means to look
// again.
func (g *Gateway) look(ctx context.Context, ask Ask) (Session, error) {
	now := time.Now()
	if session, ok := g.recall(ask, now); ok {
		return session, nil
	}
	var session Session
	_, err := g.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		units, err := g.observe(ctx, ask)
		if err != nil {
			return plan.Plan{}, err
		}
		session = Judge(units)
		return Decide(Input{Now: now, Session: ask.Session, Longest: g.options.LongestSession, Units: units}), nil
	})
	if err == nil && session.Ready() {
		g.keep(ask, session, now)
	}
	return session, err
}

func (g *Gateway) recall(ask Ask, now time.Time) (Session, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.memory.recall(ask, now)
}

func (g *Gateway) keep(ask Ask, session Session, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.memory.keep(ask, session, now)
}

// observe reads what the request is about. All of it has opted in.
func (g *Gateway) observe(ctx context.Context, ask Ask) ([]Unit, error) {
	if len(ask.Sets) == 0 {
		return g.observeGroup(ctx, ask.Group)
	}
	var units []Unit
	for _, ref := range ask.Sets {
		set, err := g.read(ctx, ref)
		if err != nil {
			return nil, err
		}
		if u := unitOf(units, set); u != nil {
			u.Named = append(u.Named, ref.Name)
			continue
		}
		u, err := g.unit(ctx, set)
		if err != nil {
			return nil, err
		}
		if !u.optedIn() {
			return nil, noTimeout(ref)
		}
		units = append(units, u)
	}
	return units, nil
}

// read reads a set that is to take part.
func (g *Gateway) read(ctx context.Context, ref Ref) (*appsv1.StatefulSet, error) {
	if !g.looksAfter(ref.Namespace) {
		return nil, notLookedAfter(ref.Namespace)
	}
	set := &appsv1.StatefulSet{}
	found, err := g.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, noSet(ref)
	case !sts.Managed(set):
		return nil, notManaged(ref)
	}
	return set, nil
}

func (g *Gateway) looksAfter(namespace string) bool {
	return len(g.namespaces) == 0 || slices.Contains(g.namespaces, namespace)
}

// unitOf finds the group of the set among those that were read; nil if it is not there, or the set has none.
func unitOf(units []Unit, set *appsv1.StatefulSet) *Unit {
	i := slices.IndexFunc(units, func(u Unit) bool {
		return u.Members.Find(set.Name) != nil && u.Members[0].Set.Namespace == set.Namespace
	})
	if i < 0 {
		return nil
	}
	return &units[i]
}

// unit reads the group of a named set.
func (g *Gateway) unit(ctx context.Context, set *appsv1.StatefulSet) (Unit, error) {
	u := Unit{Named: []string{set.Name}}
	if group := set.Labels[api.GroupLabel]; group != "" {
		members, err := g.list(ctx, set.Namespace, group)
		if err != nil {
			return u, err
		}
		u.Members = members
	}
	if u.Members.Find(set.Name) == nil { // it is alone, or left its group between two reads
		u.Members = append(u.Members, idle.MemberOf(set))
	}
	return u, nil
}

// observeGroup reads the groups of the name, one a namespace. Those that have not opted in are left out.
func (g *Gateway) observeGroup(ctx context.Context, group Ref) ([]Unit, error) {
	namespaces := g.namespaces
	switch {
	case group.Namespace != "" && !g.looksAfter(group.Namespace):
		return nil, notLookedAfter(group.Namespace)
	case group.Namespace != "":
		namespaces = []string{group.Namespace}
	case len(namespaces) == 0:
		namespaces = []string{""}
	}
	var members idle.Group
	for _, namespace := range namespaces {
		more, err := g.list(ctx, namespace, group.Name)
		if err != nil {
			return nil, err
		}
		members = append(members, more...)
	}
	units := slices.DeleteFunc(byNamespace(members), func(u Unit) bool { return !u.optedIn() })
	if len(units) == 0 {
		return nil, noGroup(group)
	}
	return units, nil
}

// list reads the members of the group, sorted by namespace and name; namespace is empty for all.
func (g *Gateway) list(ctx context.Context, namespace, group string) (idle.Group, error) {
	var members idle.Group
	selector := api.ManagedLabel + "=true," + api.GroupLabel + "=" + group
	err := kube.Pages(ctx, g.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			members = append(members, idle.MemberOf(&l.Items[i]))
		}
	})
	slices.SortFunc(members, func(a, b idle.Member) int { return compareRefs(refOf(a), refOf(b)) })
	return members, err
}

// byNamespace splits members, which are sorted by it, into the groups of their namespaces.
func byNamespace(members idle.Group) []Unit {
	var units []Unit
	for i, m := range members {
		if i == 0 || m.Set.Namespace != members[i-1].Set.Namespace {
			units = append(units, Unit{})
		}
		last := &units[len(units)-1]
		last.Members = append(last.Members, m)
	}
	return units
}
