package cleanuppod

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
)

// entryOf returns the record's entry for the ordinal, or nil.
func entryOf(record *api.Cleanup, ordinal int) *api.OrdinalStatus {
	if record == nil {
		return nil
	}
	i := slices.IndexFunc(record.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return &record.Ordinals[i]
}

// withEntry returns the record with the entry in place of the ordinal's previous entry.
func withEntry(record *api.Cleanup, entry api.OrdinalStatus) *api.Cleanup {
	next := withoutEntry(record, entry.Ordinal)
	next.Ordinals = append(next.Ordinals, entry)
	slices.SortStableFunc(next.Ordinals, func(a, b api.OrdinalStatus) int { return b.Ordinal - a.Ordinal })
	return next
}

// withoutEntry returns the record without an entry for the ordinal.
func withoutEntry(record *api.Cleanup, ordinal int) *api.Cleanup {
	next := record.Clone()
	next.Ordinals = slices.DeleteFunc(next.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	return next
}

// failedEntries returns the entries of left ordinals whose cleanup was given up.
func failedEntries(record *api.Cleanup, left []cleanup.Ordinal) []api.OrdinalStatus {
	var failed []api.OrdinalStatus
	for _, o := range left {
		if entry := entryOf(record, o.Number); entry != nil && entry.GivenUp {
			failed = append(failed, *entry)
		}
	}
	return failed
}
