package backup

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// The warnings in a record are bounded, so that the annotation stays small. Events have more of them.
const (
	warningBytes    = 300      // for one warning
	allWarningBytes = 24 << 10 // for all warnings of a record
)

const moreWarnings = "there are more warnings; see the log of the mover's pod"

// addWarnings stores a mover's warnings with its claim, each only once.
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
			move.Warnings = append(slices.Clip(move.Warnings), warning) // a clone of the record may share the array
		}
	}
}

// warningEvents returns a Kubernetes Event for each new warning.
func warningEvents(in Input, before, after *api.Resize) []plan.Action {
	var notes []plan.Action
	for _, move := range after.Moves() {
		known := before.Move(move.Claim)
		for _, text := range move.Warnings {
			if known != nil && slices.Contains(known.Warnings, text) {
				continue
			}
			notes = append(notes, plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.CopyWarning,
				Message: fmt.Sprintf("copying claim %s: %s", move.Claim, text), UID: in.Set.UID, Operation: after.Operation}))
		}
	}
	return notes
}
