package resize

import (
	"cmp"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// GoesLater reports whether a member that waits for its stop in a rolling resize has become the primary since it was chosen, and another one is
// still to be chosen: that one goes first.
func GoesLater(o *world.Observed, record *api.Resize, member *api.Member) bool {
	if record.Strategy != api.StrategyRolling || !statefulset.IsPrimary(o.Set, o.MemberPod(member.Ordinal)) {
		return false
	}
	next := NextMember(o, record)
	return next != nil && !statefulset.IsPrimary(o.Set, o.MemberPod(next.Ordinal))
}

// NextMember returns the member that a rolling resize moves next, or nil: those without a pod first, then one that is not ready, then the
// highest ordinal. The primary comes last.
func NextMember(o *world.Observed, record *api.Resize) *api.Member {
	var left []*api.Member
	for i := range record.Members {
		if m := &record.Members[i]; m.Phase == api.MemberPending {
			left = append(left, m)
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
	slices.SortStableFunc(left, func(a, b *api.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Ordinal, a.Ordinal))
	})
	if len(left) == 0 {
		return nil
	}
	return left[0]
}
