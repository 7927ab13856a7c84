// Package config embeds the administrator's part of the installation: the files of this folder.
package config

import "embed"

// Files contains the manifests and kustomizations.
//
//go:embed kustomization.yaml [a-z]*/*.yaml overlays/*/*.yaml
var Files embed.FS
