package backup

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
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
	for _, text := range warnings {
		text = shorten(text, warningBytes)
		if slices.Contains(move.Warnings, text) {
			continue
		}
		if room -= len(text); room < 0 {
			text = moreWarnings
		}
		if !slices.Contains(move.Warnings, text) {
			move.Warnings = append(slices.Clip(move.Warnings), text) // a clone of the record may share the array
		}
	}
}

// shorten cuts a text to the limit in bytes and keeps it valid UTF-8.
func shorten(text string, limit int) string {
	const mark = "..."
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "?")
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
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
