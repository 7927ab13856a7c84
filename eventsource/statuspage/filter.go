package statuspage

import (
	"slices"

	"drydock.dev/shared/overview"
)

// filter selects sets of the list.
type filter struct {
	Key, Label string
	selects    func(overview.Set) bool
}

// filters are the filters of the list. The key is the parameter show.
var filters = []filter{
	{"", "All", func(overview.Set) bool { return true }},
	{"active", "Active", isActive},
	{"failed", "Failed or refused", hasFailed},
	{"asleep", "Asleep", func(s overview.Set) bool { return s.State == overview.Asleep || s.State == overview.FallingAsleep }},
	{"letters", "Dead letters", func(s overview.Set) bool { return s.DeadLetters > 0 }},
}

// filterOf returns the filter with the key, or nil.
func filterOf(key string) *filter {
	i := slices.IndexFunc(filters, func(f filter) bool { return f.Key == key })
	if i < 0 {
		return nil
	}
	return &filters[i]
}

func isActive(s overview.Set) bool {
	return s.State == overview.WakingUp || s.State == overview.FallingAsleep ||
		slices.ContainsFunc(s.Operations, func(o overview.Operation) bool { return o.Phase != "" && !o.Phase.Terminal() })
}

func hasFailed(s overview.Set) bool {
	return slices.ContainsFunc(s.Operations, func(o overview.Operation) bool { return o.Phase == "" || o.Phase.Terminal() })
}
