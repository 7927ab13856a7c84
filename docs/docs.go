// Package docs embeds the pages that kubectl drydock explain reads.
package docs

import _ "embed" // for the directives below

// Reasons is the list of all reasons, generated from shared/api/reasons.go.
//
//go:embed reference/reasons.md
var Reasons string

// Troubleshooting has tables of reasons with what to do.
//
//go:embed troubleshooting.md
var Troubleshooting string

// Alerts has a section for each alert.
//
//go:embed alerts.md
var Alerts string
