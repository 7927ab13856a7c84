package gateway

import (
	"slices"

	"drydock.dev/shared/api"
)

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
