package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// place is a row of the table in docs/architecture.md that says where something is decided: what, file, name.
var place = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\| `([^`]+)` \\|$")

// TestArchitectureNamesPlacesThatExist: every place in docs/architecture.md is a file and a name that the file declares.
func TestArchitectureNamesPlacesThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(kit.Root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	places := place.FindAllStringSubmatch(string(page), -1)
	if len(places) < 10 {
		t.Fatalf("docs/architecture.md has %d places, want at least 10", len(places))
	}
	for _, p := range places {
		what, file, name := p[1], p[2], p[3]
		text, err := os.ReadFile(filepath.Join(kit.Root(t), filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("where %s: %v", what, err)
			continue
		}
		if !declares(t, file, string(text), name) {
			t.Errorf("where %s: %s does not declare %s", what, file, name)
		}
	}
}

// declares reports whether a Go file has a declaration of the name at its top level, or a method of it; whether another file contains the
// name as a word.
func declares(t *testing.T, file, text, name string) bool {
	t.Helper()
	if !strings.HasSuffix(file, ".go") {
		return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

func TestDeclarationsAreFound(t *testing.T) {
	const text = "package x\nfunc Decide() {}\ntype Input struct{}\nfunc (Input) open() {}\nvar Value = 1\n"
	for name, want := range map[string]bool{"Decide": true, "Input": true, "open": true, "Value": false, "Dec": false} {
		if declares(t, "x.go", text, name) != want {
			t.Errorf("declares(%s) is %t", name, !want)
		}
	}
	if !declares(t, "x.yaml", "rows:\n- name: rabbitmq\n", "rabbitmq") || declares(t, "x.yaml", "- name: rabbitmq2", "rabbitmq") {
		t.Error("a name in a YAML file is not found as a word")
	}
}
