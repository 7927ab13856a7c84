package resize

import (
	"cmp"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// ShouldYield reports whether another member goes before this one in a rolling resize. That happens if a waiting member has become the
// primary since it was chosen, and other members are still pending.
func ShouldYield(o *world.Observed, record *api.Resize, member *api.Member) bool {
	if record.Strategy != api.StrategyRolling || !statefulset.IsPrimary(o.Set, o.MemberPod(member.Ordinal)) {
		return false
	}
	next := NextMember(o, record)
	return next != nil && !statefulset.IsPrimary(o.Set, o.MemberPod(next.Ordinal))
}

// NextMember returns the member that a rolling resize moves next, or nil. Members without a pod come first, then unready members, then the
// highest ordinal, and the primary last.
func NextMember(o *world.Observed, record *api.Resize) *api.Member {
	var pending []*api.Member
	for i := range record.Members {
		if m := &record.Members[i]; m.Phase == api.MemberPending {
			pending = append(pending, m)
		}
	}
	rank := func(m *api.Member) int {
		pod := o.MemberPod(m.Ordinal)
		switch {
		case pod == nil:
			return 0
		case !statefulset.PodReady(pod):
			return 1
		case statefulset.IsPrimary(o.Set, pod):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(pending, func(a, b *api.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Ordinal, a.Ordinal))
	})
	if len(pending) == 0 {
		return nil
	}
	return pending[0]
}
