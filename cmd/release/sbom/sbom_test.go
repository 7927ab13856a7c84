package sbom

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"drydock.dev/test/golden"
)

func TestListHasModulesOfProgram(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "drydock.dev", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/docker/cli", Version: "v28.2.2+incompatible", Sum: "h1:abc="},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
		},
	}
	program := Program{Name: "drydock", Version: "v1.2.3", Created: time.Unix(1764000000, 0)}
	var text bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(list(program, info, strings.Repeat("ab", 32)))
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, text.String())
}

func TestTextIsNoProgram(t *testing.T) {
	err := Write(&bytes.Buffer{}, Program{Name: "drydock", Path: "sbom.go"})
	if err == nil || !strings.Contains(err.Error(), "reading the modules") {
		t.Errorf("got %v", err)
	}
}
