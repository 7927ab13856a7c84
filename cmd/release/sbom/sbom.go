// Package sbom lists the modules of a compiled program, in the format CycloneDX. The list comes from the program itself, where the linker
// has recorded it.
package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// Program is the program to describe.
type Program struct {
	Name    string
	Version string
	Path    string // of the binary
	Created time.Time
}

// Write writes the list of the program's modules as JSON.
func Write(to io.Writer, p Program) error {
	info, err := buildinfo.ReadFile(p.Path)
	if err != nil {
		return fmt.Errorf("reading the modules of %s: %w", p.Name, err)
	}
	content, err := os.ReadFile(p.Path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", p.Name, err)
	}
	hash := sha256.Sum256(content)
	return cyclonedx.NewBOMEncoder(to, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(list(p, info, hex.EncodeToString(hash[:])))
}

// list returns the list of the program's modules. hash is the SHA-256 of the program.
func list(p Program, info *debug.BuildInfo, hash string) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: p.Created.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, BOMRef: p.Name, Name: p.Name, Version: p.Version,
			Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hash}},
			PackageURL: packageURL(info.Main.Path, p.Version) + "#cmd/" + p.Name,
		},
	}
	components := []cyclonedx.Component{component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		components = append(components, dependency(module))
	}
	bom.Components = &components
	return bom
}

// dependency returns the module that was linked: the replacement, if go.mod has one.
func dependency(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	c := component(module.Path, module.Version)
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: module.Sum}}
	}
	return c
}

func component(name, version string) cyclonedx.Component {
	url := packageURL(name, version)
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: name, Version: version, PackageURL: url}
}

// packageURL returns the name of a Go module for scanners.
func packageURL(name, version string) string {
	return "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
}
