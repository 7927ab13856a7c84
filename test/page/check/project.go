package check

import (
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Project is what pages may name.
type Project struct {
	root      string
	makefile  string
	targets   map[string]bool
	keys      map[string]string // the kinds of the key: Annotation, Label and Finalizer; empty if only a manifest has it
	tests     map[string]bool   // of all packages
	variables map[string]bool   // DRYDOCK_…, of Go files and the Makefile
}

var (
	target       = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9_]*)\(`)
	variable     = regexp.MustCompile(`DRYDOCK_[A-Z_]+`)
	keyConstant  = regexp.MustCompile(`\b[A-Z]\w*(Annotation|Label|Finalizer) *= Prefix \+ "([a-z-]+)"`)
	keyInFile    = regexp.MustCompile(`\bdrydock\.dev/([a-z][a-z0-9-]*)`)
)

// Read reads the project below the root.
func Read(root string) (*Project, error) {
	p := &Project{root: root, targets: map[string]bool{}, keys: map[string]string{}, tests: map[string]bool{}, variables: map[string]bool{}}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".cluster" || entry.Name() == "bin") {
			return filepath.SkipDir
		}
		inProject, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		isWanted := func(name string) bool {
			return strings.HasSuffix(name, ".go") || name == "Makefile" || path.Ext(name) == ".yaml"
		}
		if !entry.Type().IsRegular() || !isWanted(entry.Name()) {
			return nil
		}
		text, err := os.ReadFile(name)
		p.add(filepath.ToSlash(inProject), string(text))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the project: %w", err)
	}
	return p, nil
}

// add adds the definitions of a file.
func (p *Project) add(name, text string) {
	folder, _, _ := strings.Cut(name, "/")
	switch {
	case name == "Makefile":
		p.makefile = text
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			p.targets[m[1]] = true
		}
	case path.Dir(name) == "shared/api":
		for _, m := range keyConstant.FindAllStringSubmatch(text, -1) {
			p.keys[m[2]] += m[1]
		}
	case path.Ext(name) == ".yaml" && (folder == "config" || folder == "deploy"):
		for _, m := range keyInFile.FindAllStringSubmatch(text, -1) {
			p.keys[m[1]] += ""
		}
		return
	}
	for _, m := range variable.FindAllString(text, -1) {
		p.variables[m] = true
	}
	for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
		p.tests[m[1]] = true
	}
}

// exists reports whether the path, which may be a pattern, is in the project.
func (p *Project) exists(name string) bool {
	found, err := filepath.Glob(filepath.Join(p.root, filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}

// isBuilt reports whether the Makefile writes the file.
func (p *Project) isBuilt(name string) bool {
	return strings.Contains(p.makefile, "-o "+name+" ") || strings.HasPrefix(name, ".cluster/")
}

// testsIn returns the names of a package's tests with the build tags, and the text of their files.
func (p *Project) testsIn(folder string, tags []string) (names []string, text string, err error) {
	context := build.Default
	context.BuildTags = tags
	dir := filepath.Join(p.root, filepath.FromSlash(folder))
	found, err := context.ImportDir(dir, 0)
	if err != nil && len(found.TestGoFiles)+len(found.XTestGoFiles) == 0 {
		return nil, "", err
	}
	for _, file := range append(found.TestGoFiles, found.XTestGoFiles...) {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, "", err
		}
		text += string(content)
	}
	for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names, text, nil
}
