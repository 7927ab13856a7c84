// Package deploy embeds the Triggers of this folder. They are the only definition of the events that each function gets, so the standalone
// engine routes events as a cluster does.
package deploy

import "embed"

// Triggers contains the files FUNCTION/triggers.yaml.
//
//go:embed */triggers.yaml
var Triggers embed.FS
