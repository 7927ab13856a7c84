package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
)

// invariants is the number of invariants.
const invariants = 10

// tests are the names of the tests that show an invariant, by invariant (I1) and folder.
type tests map[string]map[string][]string

// tagged matches the line of a test's doc comment that names the invariants it shows.
var tagged = regexp.MustCompile(`(?m)^Invariants: (I\d+(?:, I\d+)*)\.$`)

// listOpens and listCloses enclose the generated list of an invariant in docs/invariants.md.
const (
	listOpens  = "<!-- tests of %s -->\n"
	listCloses = "<!-- end -->\n"
)

// TestInvariantsDocListsEveryTest compares docs/invariants.md with the tests that name an invariant in their doc comment:
//
//	// Invariants: I1, I3.
//
// Every invariant has at least one test. The lists of the document are generated: go test ./test/arch -update
func TestInvariantsDocListsEveryTest(t *testing.T) {
	found := tests{}
	for _, top := range []string{"cmd", "eventsource", "functions", "shared", "test"} {
		if err := found.readFolder(kit.Root(t), top); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(kit.Root(t), "docs", "invariants.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := found.listedIn(string(text))
	if err != nil {
		t.Fatal(err)
	}
	golden.Is(t, path, renewed)
}

// readFolder adds the tests below a folder.
func (found tests) readFolder(root, top string) error {
	return filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return found.readFile(filepath.ToSlash(folder), path, nil)
	})
}

func (found tests) readFile(folder, path string, source any) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		tag := tagged.FindStringSubmatch(f.Doc.Text())
		if tag == nil && strings.Contains("\n"+f.Doc.Text(), "\nInvariants:") {
			return fmt.Errorf("%s: the comment of %s has no line of the form \"Invariants: I1, I3.\"", path, f.Name.Name)
		}
		if tag != nil {
			for _, invariant := range strings.Split(tag[1], ", ") {
				found.add(invariant, folder, f.Name.Name)
			}
		}
	}
	return nil
}

func (found tests) add(invariant, folder, test string) {
	if found[invariant] == nil {
		found[invariant] = map[string][]string{}
	}
	found[invariant][folder] = append(found[invariant][folder], test)
}

// listedIn returns the document with the renewed list of each invariant. It returns an error for a test with an unknown invariant, an
// invariant without a test, and a document without the place for a list.
func (found tests) listedIn(document string) (string, error) {
	listed := 0
	for i := range invariants {
		invariant := fmt.Sprintf("I%d", i+1)
		if len(found[invariant]) == 0 {
			return "", fmt.Errorf("no test names invariant %s in its comment", invariant)
		}
		before, rest, opened := strings.Cut(document, fmt.Sprintf(listOpens, invariant))
		_, after, closed := strings.Cut(rest, listCloses)
		if !opened || !closed {
			return "", fmt.Errorf("docs/invariants.md has no place for the tests of %s", invariant)
		}
		document = before + fmt.Sprintf(listOpens, invariant) + list(found[invariant]) + listCloses + after
		listed++
	}
	if len(found) > listed {
		return "", fmt.Errorf("a test names an invariant above I%d", invariants)
	}
	return document, nil
}

// list renders the tests, a line each.
func list(folders map[string][]string) string {
	var b strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		fmt.Fprintf(&b, "- `%s`\n", folder)
		for _, test := range folders[folder] {
			fmt.Fprintf(&b, "  - `%s`\n", test)
		}
	}
	return b.String()
}

func TestInvariantsAreListed(t *testing.T) {
	document := "# Invariants\n"
	all := tests{}
	for i := range invariants {
		invariant := fmt.Sprintf("I%d", i+1)
		all.add(invariant, "test/api", "TestOf"+invariant)
		document += "## " + invariant + "\n" + fmt.Sprintf(listOpens, invariant) + "- `test/api`\n  - `TestOf" + invariant + "`\n" + listCloses
	}
	const tag = "// Invariants: I2, I3.\n"
	for name, row := range map[string]struct {
		source  string
		changes [2]string // the document has the second in place of the first
		failure string
	}{
		"the list is up to date":       {"", [2]string{}, ""},
		"a test is new":                {tag + "func TestNew(t *testing.T) {}", [2]string{"TestOfI2`\n", "TestOfI2`\n  - `TestNew`\n"}, ""},
		"a method is no test":          {tag + "func (x) TestMethod() {}", [2]string{}, ""},
		"a test names none":            {"func TestPlain(t *testing.T) {}", [2]string{}, ""},
		"the tag is malformed":         {"// Invariants: all\nfunc TestNew(t *testing.T) {}", [2]string{}, "has no line of the form"},
		"the tag is in the wrong case": {"// Invariants: i2.\nfunc TestNew(t *testing.T) {}", [2]string{}, "has no line of the form"},
		"the invariant does not exist": {"// Invariants: I11.\nfunc TestNew(t *testing.T) {}", [2]string{}, "above I10"},
	} {
		found := tests{}
		for invariant, folders := range all {
			found.add(invariant, "test/api", folders["test/api"][0])
		}
		want := document
		if row.changes[0] != "" {
			want = strings.Replace(want, row.changes[0], row.changes[1], 1)
			want = strings.Replace(want, "TestOfI3`\n", "TestOfI3`\n  - `TestNew`\n", 1)
		}
		err := found.readFile("test/api", "a_test.go", "package api\n"+row.source)
		got := ""
		if err == nil {
			got, err = found.listedIn(document)
		}
		switch {
		case row.failure != "":
			if err == nil || !strings.Contains(err.Error(), row.failure) {
				t.Errorf("%s: error %v, want %q", name, err, row.failure)
			}
		case err != nil || got != want:
			t.Errorf("%s: error %v, got\n%s", name, err, got)
		}
	}
	delete(all, "I4")
	if _, err := all.listedIn(document); err == nil || !strings.Contains(err.Error(), "I4") {
		t.Errorf("an invariant without a test: error %v", err)
	}
}
