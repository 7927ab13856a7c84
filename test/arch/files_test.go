package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"

	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
)

// TestFilesUseDownward checks that the files of each package have floors: a file uses only files below it. So a reader can start at the top
// of a package and never has to come back. The golden file draws the floors of every package, the top floor first.
//
// A method's receiver does not count as a use: the methods of a type may be in several files. The fields of a type do not count either.
func TestFilesUseDownward(t *testing.T) {
	drawing := golden.Open(t)
	for _, p := range ownPackages(t) {
		uses := usesBetweenFiles(p)
		floors, circle := floorsOf(uses)
		if len(circle) > 0 {
			t.Errorf("files of %s use each other in a circle: %s", p.PkgPath, describe(uses, circle))
			continue
		}
		if len(floors) > 1 {
			drawing.Entry(t, relative(p.PkgPath), draw(floors))
		}
	}
}

// fileUses has the names that a file uses of another file of its package.
type fileUses map[string]map[string][]string

// ownPackages returns the packages of the module with their types, sorted by path.
func ownPackages(t *testing.T) []*gopackages.Package {
	t.Helper()
	found, err := gopackages.Load(&gopackages.Config{Dir: kit.Root(t), Mode: gopackages.LoadSyntax}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		for _, problem := range p.Errors {
			t.Fatalf("loading %s: %v", p.PkgPath, problem)
		}
	}
	return slices.SortedFunc(slices.Values(found), func(a, b *gopackages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
}

func usesBetweenFiles(p *gopackages.Package) fileUses {
	uses := fileUses{}
	receivers := identifiersOfReceivers(p.Syntax)
	file := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
	for _, f := range p.Syntax {
		uses[file(f.Pos())] = map[string][]string{}
	}
	for id, object := range p.TypesInfo.Uses {
		if receivers[id] || object.Pkg() != p.Types || !isDeclaredInFile(object, p.Types.Scope()) {
			continue
		}
		from, to := file(id.Pos()), file(object.Pos())
		if from != to && !slices.Contains(uses[from][to], object.Name()) {
			uses[from][to] = append(uses[from][to], object.Name())
		}
	}
	return uses
}

// isDeclaredInFile reports whether the object belongs to a file: a function, a method of a concrete type, or a constant, variable or type
// of the package.
func isDeclaredInFile(object types.Object, scope *types.Scope) bool {
	if method, ok := object.(*types.Func); ok {
		receiver := method.Signature().Recv()
		return receiver == nil || !types.IsInterface(receiver.Type())
	}
	return object.Parent() == scope
}

func identifiersOfReceivers(files []*ast.File) map[*ast.Ident]bool {
	found := map[*ast.Ident]bool{}
	for _, f := range files {
		for _, declaration := range f.Decls {
			method, ok := declaration.(*ast.FuncDecl)
			if !ok || method.Recv == nil {
				continue
			}
			ast.Inspect(method.Recv, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					found[id] = true
				}
				return true
			})
		}
	}
	return found
}

// floorsOf returns the files by floor, the lowest first. If there are circles, it returns the files that are part of one or above one.
func floorsOf(uses fileUses) (floors [][]string, circle []string) {
	left := maps.Clone(uses)
	for len(left) > 0 {
		var floor []string
		for file, others := range left {
			if !usesOneOf(others, left) {
				floor = append(floor, file)
			}
		}
		if len(floor) == 0 {
			return nil, slices.Sorted(maps.Keys(left))
		}
		slices.Sort(floor)
		floors = append(floors, floor)
		for _, file := range floor {
			delete(left, file)
		}
	}
	return floors, nil
}

func usesOneOf(uses map[string][]string, files fileUses) bool {
	for file := range uses {
		if _, found := files[file]; found {
			return true
		}
	}
	return false
}

// draw renders the floors, the top floor first.
func draw(floors [][]string) string {
	var b strings.Builder
	for i := len(floors) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "%d  %s\n", i, strings.Join(floors[i], " "))
	}
	return b.String()
}

// describe renders the uses between the files.
func describe(uses fileUses, files []string) string {
	var b strings.Builder
	for _, from := range files {
		for _, to := range files {
			if names := uses[from][to]; len(names) > 0 {
				slices.Sort(names)
				fmt.Fprintf(&b, "\n\t%s uses of %s: %s", from, to, strings.Join(names, ", "))
			}
		}
	}
	return b.String()
}

func TestCirclesOfFilesAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		uses   fileUses
		drawn  string
		circle string
	}{
		"one above the other": {fileUses{"function.go": {"decide.go": {"Decide"}}, "decide.go": {}}, "1  function.go\n0  decide.go\n", ""},
		"a circle of two, and one above": {fileUses{"function.go": {"decide.go": {"Decide"}}, "decide.go": {"gate.go": {"open"}},
			"gate.go": {"decide.go": {"Input"}}}, "", "decide.go function.go gate.go"},
		"a circle above another file": {fileUses{"a.go": {"b.go": {"B"}}, "b.go": {"a.go": {"A"}, "c.go": {"C"}}, "c.go": {}}, "", "a.go b.go"},
	} {
		floors, circle := floorsOf(row.uses)
		if draw(floors) != row.drawn || strings.Join(circle, " ") != row.circle {
			t.Errorf("%s: drawn %q, circle %q", name, draw(floors), circle)
		}
	}
}
