package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// stamp returns a digest of the program's inputs: its sources, the versions of its modules, the compiler and the flags. It omits go.sum,
// because go.mod determines its content.
func (p Program) stamp() (string, error) {
	sources, err := p.sources()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOARCH, p.Flags)
	for _, each := range p.Packages {
		fmt.Fprintln(hash, each)
	}
	for _, path := range append(sources, filepath.Join(p.Module, "go.mod")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", p.Title, err)
		}
		fmt.Fprintln(hash, filepath.Base(path), len(text))
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// sources returns the files of the module's own package. The sources of required modules are determined by go.mod.
func (p Program) sources() ([]string, error) {
	if len(p.Packages) > 0 {
		return nil, nil
	}
	sources, err := filepath.Glob(filepath.Join(p.Module, p.Folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the sources of %s: %w", p.Title, err)
	}
	sources = slices.DeleteFunc(sources, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	if len(sources) == 0 {
		return nil, fmt.Errorf("found no sources of %s in %s", p.Title, filepath.Join(p.Module, p.Folder))
	}
	return sources, nil
}

// StampOf returns the stamp in a path that Ensure returned.
func StampOf(path string) string {
	name := filepath.Base(path)
	return name[strings.LastIndexByte(name, '-')+1:]
}
