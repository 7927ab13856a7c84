package backup

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// Limits for the warnings in a record, so that the annotation stays small. The log of the mover's pod has all warnings.
const (
	warningBytes    = 300      // for one warning
	allWarningBytes = 24 << 10 // for all warnings of a record
)

const moreWarnings = "not all warnings are listed. Read the others in the log of the mover's pod"

// addWarnings adds the mover's warnings to the claim's warnings in the record, without duplicates. omitted is the number of warnings that
// the mover's report lacks. If warnings are omitted or exceed the limit, addWarnings adds a warning that there are more.
func addWarnings(record *api.Resize, move *api.Move, warnings []string, omitted int) {
	if omitted > 0 {
		warnings = append(slices.Clone(warnings), moreWarnings)
	}
	room := allWarningBytes / max(len(record.Moves()), 1)
	for _, have := range move.Warnings {
		room -= len(have)
	}
	for _, warning := range warnings {
		warning = text.Clip(warning, warningBytes)
		if slices.Contains(move.Warnings, warning) {
			continue
		}
		if room -= len(warning); room < 0 {
			warning = moreWarnings
		}
		if !slices.Contains(move.Warnings, warning) {
			move.Warnings = append(slices.Clip(move.Warnings), warning) // Clip: a clone of the record may share the array
		}
	}
}

// warningEvents returns a Warning Event on the set for each warning of a claim that is new in the record.
func warningEvents(in Input, before, after *api.Resize) []plan.Action {
	var notes []plan.Action
	for _, move := range after.Moves() {
		known := before.Move(move.Claim)
		for _, text := range move.Warnings {
			if known != nil && slices.Contains(known.Warnings, text) {
				continue
			}
			notes = append(notes, plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.CopyWarning,
				Message: fmt.Sprintf("copying claim %s: %s", move.Claim, text), UID: in.Set.UID, Operation: after.Operation}))
		}
	}
	return notes
}
