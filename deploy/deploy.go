// Package deploy embeds the files of this folder. Its Triggers are the only definition of the events that each function gets, so the
// standalone engine routes events as a cluster does.
package deploy

import "embed"

// Triggers contains the files FUNCTION/triggers.yaml.
//
//go:embed [a-z]*/triggers.yaml
var Triggers embed.FS

// Files contains the manifests and kustomizations.
//
//go:embed kustomization.yaml [a-z]*/*.yaml
var Files embed.FS
