// Package krew makes the manifest with which krew, kubectl's plugin manager, installs kubectl drydock.
package krew

import (
	"strings"

	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/release/build"
)

// Archive is an archive with the plugin.
type Archive struct {
	Platform build.Platform
	Name     string
	SHA256   string
	Program  string // name of the program in the archive
}

type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
	Files    []copied `json:"files"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type copied struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// description is for kubectl krew info.
const description = `Drydock resizes, sleeps and cleans up StatefulSets. The plugin plans a resize, requests it, shows how far it is, and
installs Drydock on a cluster.
`

// Manifest returns the manifest. The archives are below the base URL.
func Manifest(version, baseURL string, archives []Archive) ([]byte, error) {
	baseURL = strings.TrimSuffix(baseURL, "/")
	m := manifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: metadata{Name: "drydock"}}
	m.Spec = spec{Version: version, Homepage: baseURL, ShortDescription: "Resize and sleep StatefulSets", Description: description}
	for _, archive := range archives {
		m.Spec.Platforms = append(m.Spec.Platforms, platform{
			Selector: selector{MatchLabels: map[string]string{"os": archive.Platform.OS, "arch": archive.Platform.Arch}},
			URI:      baseURL + "/" + archive.Name,
			SHA256:   archive.SHA256,
			Bin:      archive.Program,
			Files:    []copied{{From: archive.Program, To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	return yaml.Marshal(m)
}
