package gateway

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/eventsource/gateway/share"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// lookTimeout bounds one look, so that an API server that hangs does not hold requests for ever.
const lookTimeout = 10 * time.Second

// look keeps the session alive and returns how it stands, by one and the same state of the sets. Requests for the same sets take
// turns: what one of them reads, the others use for a while, and a session that one has written covers the others.
func (g *Gateway) look(caller context.Context, ask Ask) (session Session, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(caller, lookTimeout)
	defer cancel()
	turn, err := g.views.Take(ctx, ask.String())
	if err != nil {
		return Session{}, false, err
	}
	defer turn.End()
	again := false
	_, err = g.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		units, err := g.view(ctx, turn, ask, again)
		again = true // after a write or a conflict, what was seen is old
		if err != nil {
			return plan.Plan{}, err
		}
		session = Judge(units)
		p := Decide(Input{Now: time.Now(), Session: ask.Session, Longest: g.options.LongestSession, Units: units})
		wrote = wrote || p.Kind == plan.KindDo
		return p, nil
	})
	if err != nil && ctx.Err() == nil {
		turn.Keep(nil, err, time.Now().Add(rememberedWaiting))
	}
	return session, wrote && err == nil, err
}

// view returns what was seen a moment ago, or reads it again.
func (g *Gateway) view(ctx context.Context, turn *share.Turn[[]Unit], ask Ask, again bool) ([]Unit, error) {
	now := time.Now()
	if units, err, ok := turn.Recall(now); ok && !again {
		return units, err
	}
	units, err := g.observe(ctx, ask)
	switch {
	case ctx.Err() != nil: // the caller's end says nothing of the sets
	case err == nil && Judge(units).Ready():
		turn.Keep(units, nil, now.Add(remembered))
	default:
		turn.Keep(units, err, now.Add(rememberedWaiting))
	}
	return units, err
}

// watch returns how the session stands, and keeps nothing awake.
func (g *Gateway) watch(caller context.Context, ask Ask) ([]Unit, error) {
	ctx, cancel := context.WithTimeout(caller, lookTimeout)
	defer cancel()
	turn, err := g.views.Take(ctx, ask.String())
	if err != nil {
		return nil, err
	}
	defer turn.End()
	return g.view(ctx, turn, ask, false)
}

// observe reads what the request is about. All of it has opted in.
func (g *Gateway) observe(ctx context.Context, ask Ask) ([]Unit, error) {
	switch {
	case ask.All:
		members, err := g.list(ctx, "", api.ManagedLabel+"=true")
		return optedIn(byGroup(members)), err
	case len(ask.Sets) == 0:
		return g.observeGroup(ctx, ask.Group)
	}
	var units []Unit
	for _, name := range ask.Sets {
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

// addNamed adds the group of a named set, if it is not among the units.
func (g *Gateway) addNamed(ctx context.Context, units *[]Unit, name Name) error {
	u := unitOf(*units, name.Ref)
	if u == nil {
		set, err := g.read(ctx, name.Ref)
		if err != nil {
			return err
		}
		members, err := g.groupOf(ctx, set)
		if err != nil {
			return err
		}
		fresh := Unit{Members: members}
		if !fresh.optedIn() {
			return nothing(name.Ref, "neither it nor another of its group has annotation "+api.IdleTimeoutAnnotation)
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

// read reads a set that is to take part.
func (g *Gateway) read(ctx context.Context, ref Ref) (*appsv1.StatefulSet, error) {
	if !g.looksAfter(ref.Namespace) {
		return nil, nothing(ref, "its namespace is not in DRYDOCK_NAMESPACES")
	}
	set := &appsv1.StatefulSet{}
	found, err := g.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, nothing(ref, "it does not exist")
	case !statefulset.Managed(set):
		return nil, nothing(ref, "it lacks label "+api.ManagedLabel+"=true")
	}
	return set, nil
}

func (g *Gateway) looksAfter(namespace string) bool {
	return len(g.namespaces) == 0 || slices.Contains(g.namespaces, namespace)
}

// unitOf returns the unit of the set among those that were read, or nil.
func unitOf(units []Unit, ref Ref) *Unit {
	i := slices.IndexFunc(units, func(u Unit) bool { return u.find(ref) })
	if i < 0 {
		return nil
	}
	return &units[i]
}

func (u Unit) find(ref Ref) bool {
	return slices.ContainsFunc(u.Members, func(m Member) bool { return m.Ref == ref })
}

// groupOf reads the group of a named set.
func (g *Gateway) groupOf(ctx context.Context, set *appsv1.StatefulSet) ([]Member, error) {
	self := memberOf(set)
	if self.Group == "" {
		return []Member{self}, nil
	}
	members, err := g.list(ctx, set.Namespace, groupSelector(self.Group))
	if err == nil && !(Unit{Members: members}).find(self.Ref) { // it left its group between two reads
		members = append(members, self)
	}
	return members, err
}

func groupSelector(group string) string {
	return api.ManagedLabel + "=true," + api.GroupLabel + "=" + group
}

// observeGroup reads the group of one namespace.
func (g *Gateway) observeGroup(ctx context.Context, group Ref) ([]Unit, error) {
	if !g.looksAfter(group.Namespace) {
		return nil, noGroup(group, nil, "its namespace is not in DRYDOCK_NAMESPACES")
	}
	members, err := g.list(ctx, group.Namespace, groupSelector(group.Name))
	if err != nil {
		return nil, err
	}
	if u := (Unit{Members: members}); u.optedIn() {
		return []Unit{u}, nil
	}
	if !g.token.wanted() { // strangers are not told what else there is
		return nil, noGroup(group, nil, "none of its sets is opted in")
	}
	others, err := g.list(ctx, group.Namespace, api.ManagedLabel+"=true")
	if err != nil {
		return nil, err
	}
	return nil, noGroup(group, groupsOf(optedIn(byGroup(others))), "none of its sets is opted in")
}

// list reads sets, sorted by namespace and name. Without a namespace it reads all that this Drydock looks after.
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
