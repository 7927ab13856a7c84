// Package deploy carries the Triggers of this folder, the only statement of which function gets which event, so that the
// standalone engine routes as a cluster does.
package deploy

import "embed"

// Triggers holds FUNCTION/triggers.yaml.
//
//go:embed */triggers.yaml
var Triggers embed.FS
