// Package build compiles the programs of a release. The same commit and the same Go version always give the same bytes.
package build

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Platform is an operating system and an architecture, with the names of Go.
type Platform struct{ OS, Arch string }

// String returns the platform as part of a file name.
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Program is a command of the module.
type Program struct {
	Name      string // of the folder below cmd
	Platforms []Platform
}

// Binary is a compiled program.
type Binary struct {
	Program  string
	Platform Platform
	Path     string
}

// FileName returns the name of the program's file on its platform.
func (b Binary) FileName() string {
	if b.Platform.OS == "windows" {
		return b.Program + ".exe"
	}
	return b.Program
}

// Compiler compiles programs of a module.
type Compiler struct {
	Root      string            // folder of the module
	To        string            // folder of the binaries
	Variables map[string]string // values of variables of type string, by package and name
}

// Compile compiles the program for each of its platforms. It needs every module in the cache, because it uses no network.
func (c Compiler) Compile(ctx context.Context, program Program) ([]Binary, error) {
	flags := "-s -w"
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		flags += " -X " + name + "=" + c.Variables[name]
	}
	var made []Binary
	for _, platform := range program.Platforms {
		binary := Binary{program.Name, platform, filepath.Join(c.To, platform.String(), program.Name)}
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary.Path,
			"./cmd/"+program.Name)
		command.Dir = c.Root
		command.Env = append(os.Environ(), environment(platform)...)
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building %s for %s: %w\n%s", program.Name, platform, err, output)
		}
		made = append(made, binary)
	}
	return made, nil
}

// environment returns the variables of the go command. It sets everything that changes a binary.
func environment(platform Platform) []string {
	return []string{"GOOS=" + platform.OS, "GOARCH=" + platform.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off",
		"CGO_ENABLED=0", "GOPROXY=off", "GOWORK=off", "GOFLAGS="}
}
