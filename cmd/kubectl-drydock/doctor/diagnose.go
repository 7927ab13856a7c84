// Package doctor checks an installation of Drydock. It is pure: Facts has what the command read from the cluster, and Diagnose returns a
// finding for each check, with the remedy.
package doctor

import (
	"slices"

	"drydock.dev/shared/text"
)

// maxText is the longest text of a finding, in bytes.
const maxText = 2000

// Diagnose returns the findings. The texts of other users in them have no control characters, and are not longer than maxText.
func Diagnose(f Facts) []Finding {
	all := slices.Concat(server(f.Server), installation(f), tick(f), policies(f), accounts(f), rights(f), storage(f), owned(f))
	for i := range all {
		all[i].State, all[i].Remedy = text.Line(all[i].State, maxText), text.Line(all[i].Remedy, maxText)
	}
	return all
}
