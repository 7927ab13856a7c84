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

// invariants is how many there are.
const invariants = 10

// shown are the tests of each folder, or, of a document, those that it lists in a section.
type shown map[string][]string

var (
	named   = regexp.MustCompile(`^Test(I\d+)[A-Z]`)
	section = regexp.MustCompile(`^## (I\d+) \S`)
	bullet  = regexp.MustCompile("^- `([a-z0-9/]+)`: (.*)$")
	quoted  = regexp.MustCompile("`(Test\\w+)`")
)

// TestInvariantsDocListsEveryTest: docs/invariants.md tells of every test that has an invariant in its name, and of none that does not
// exist; and every invariant has one. Write it with: go test ./test/arch -run TestInvariantsDocListsEveryTest -update
func TestInvariantsDocListsEveryTest(t *testing.T) {
	have := shown{}
	for _, top := range []string{"cmd", "eventsource", "functions", "shared", "test"} {
		if err := have.readFolder(kit.Root(t), top); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(kit.Root(t), "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	if golden.Updating() {
		text = []byte(renewed(string(text), have))
		if err := os.WriteFile(filepath.Join(kit.Root(t), "docs", "invariants.md"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, problem := range rotten(have, sectionsOf(string(text))) {
		t.Error(problem)
	}
}

// readFolder takes in the names of the tests below a folder, by the folder that they are in.
func (s shown) readFolder(root, top string) error {
	return filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return s.readFile(filepath.ToSlash(folder), path, nil)
	})
}

func (s shown) readFile(folder, path string, source any) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			s[folder] = append(s[folder], f.Name.Name)
		}
	}
	return nil
}

// sectionsOf reads the sections of the document, by invariant.
func sectionsOf(text string) map[string]shown {
	sections, now := map[string]shown{}, shown(nil)
	for _, line := range strings.Split(text, "\n") {
		if head := section.FindStringSubmatch(line); head != nil {
			now = shown{}
			sections[head[1]] = now
		} else if item := bullet.FindStringSubmatch(line); item != nil && now != nil {
			for _, name := range quoted.FindAllStringSubmatch(item[2], -1) {
				now[item[1]] = append(now[item[1]], name[1])
			}
		}
	}
	return sections
}

// renewed returns the document without the tests that do not exist, and with those that have an invariant in their names.
func renewed(text string, have shown) string {
	var lines []string
	for _, part := range strings.SplitAfter(text, "\n## ") {
		kept, listed := []string{}, map[string]bool{}
		invariant, _, _ := strings.Cut(part, " ")
		for _, line := range strings.Split(part, "\n") {
			item := bullet.FindStringSubmatch(line)
			if item == nil {
				kept = append(kept, line)
				continue
			}
			listed[item[1]] = true
			if line := have.line(item[1], invariant, item[2]); line != "" {
				kept = append(kept, line)
			}
		}
		last := len(kept)
		for last > 0 && !strings.HasPrefix(kept[last-1], "- ") {
			last--
		}
		for _, folder := range slices.Sorted(maps.Keys(have)) {
			if line := have.line(folder, invariant, ""); line != "" && !listed[folder] && last > 0 {
				kept = slices.Insert(kept, last, line)
				last++
			}
		}
		lines = append(lines, strings.Join(kept, "\n"))
	}
	return strings.Join(lines, "")
}

// line lists the folder's tests of the invariant: those that were listed and exist, and those that are named after it.
func (s shown) line(folder, invariant, listed string) string {
	var names []string
	for _, name := range quoted.FindAllStringSubmatch(listed, -1) {
		if slices.Contains(s[folder], name[1]) && !slices.Contains(names, "`"+name[1]+"`") {
			names = append(names, "`"+name[1]+"`")
		}
	}
	for _, test := range s[folder] {
		if of := named.FindStringSubmatch(test); of != nil && of[1] == invariant && !slices.Contains(names, "`"+test+"`") {
			names = append(names, "`"+test+"`")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("- `%s`: %s", folder, strings.Join(names, ", "))
}

// rotten says what the document lacks, and what it names that does not exist.
func rotten(have shown, doc map[string]shown) []string {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i := range invariants {
		if name := fmt.Sprintf("I%d", i+1); len(doc[name]) == 0 {
			complain("docs/invariants.md has no test of %s", name)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(have)) {
		for _, test := range have[folder] {
			if of := named.FindStringSubmatch(test); of != nil && !slices.Contains(doc[of[1]][folder], test) {
				complain("docs/invariants.md lacks `%s` of %s, under ## %s", test, folder, of[1])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		for _, folder := range slices.Sorted(maps.Keys(doc[name])) {
			for _, test := range doc[name][folder] {
				if !slices.Contains(have[folder], test) {
					complain("docs/invariants.md names `%s` of %s, which does not exist, under ## %s", test, folder, name)
				}
			}
		}
	}
	return problems
}

func TestRottenListsAreFound(t *testing.T) {
	have := shown{}
	if err := have.readFile("test/api", "a_test.go", "package api\nfunc TestI1A(t *testing.T) {}\nfunc TestI2B(t *testing.T) {}\nfunc TestPlain(t *testing.T) {}\nfunc (x) TestI1Method() {}"); err != nil {
		t.Fatal(err)
	}
	whole := ""
	for i := range invariants {
		whole += fmt.Sprintf("## I%d Name\n- `test/api`: `TestPlain`\n", i+1)
	}
	with := func(head, tests string) string {
		return strings.Replace(whole, "## "+head+" Name\n- `test/api`: ", "## "+head+" Name\n- `test/api`: "+tests+", ", 1)
	}
	good := with("I1", "`TestI1A`")
	whole = good
	good = with("I2", "`TestI2B`")
	for name, row := range map[string]struct{ doc, want string }{
		"all is there":                {good, ""},
		"one is missing":              {strings.Replace(good, "`TestI1A`, ", "", 1), "docs/invariants.md lacks `TestI1A` of test/api, under ## I1"},
		"it stands under another one": {strings.NewReplacer("`TestI1A`, ", "", "`TestI2B`", "`TestI2B`, `TestI1A`").Replace(good), "docs/invariants.md lacks `TestI1A` of test/api, under ## I1"},
		"it stands under both":        {strings.Replace(good, "`TestI2B`", "`TestI2B`, `TestI1A`", 1), ""},
		"one is gone":                 {strings.Replace(good, "`TestI1A`", "`TestI1A`, `TestI1Gone`", 1), "docs/invariants.md names `TestI1Gone` of test/api, which does not exist, under ## I1"},
		"a section is empty":          {strings.Replace(good, "## I9 Name\n- `test/api`: `TestPlain`\n", "## I9 Name\n", 1), "docs/invariants.md has no test of I9"},
		"a method is no test":         {strings.Replace(good, "`TestI1A`", "`TestI1A`, `TestI1Method`", 1), "docs/invariants.md names `TestI1Method` of test/api, which does not exist, under ## I1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(rotten(have, sectionsOf(row.doc)), "\n"); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
