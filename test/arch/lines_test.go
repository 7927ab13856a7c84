package arch

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"drydock.dev/test/kit"
)

// maxLine is the longest allowed line, in characters.
const maxLine = 140

// TestLinesAreShort checks the Go, Markdown and YAML files and the Makefile. Generated files and test data may have long lines.
func TestLinesAreShort(t *testing.T) {
	root := kit.Root(t)
	for _, name := range kit.Files(t) {
		if !limitsLines(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if long := tooLong(text); len(long) > 0 {
			t.Errorf("%s: lines %v are longer than %d characters. Break them", name, long, maxLine)
		}
	}
}

// limitsLines reports whether the limit applies to the file.
func limitsLines(name string) bool {
	if within(name, "config/crd") || strings.HasPrefix(path.Base(name), "zz_generated") ||
		strings.Contains("/"+name, "/testdata/") {
		return false
	}
	return slices.Contains([]string{".go", ".md", ".yaml"}, path.Ext(name)) || path.Base(name) == "Makefile"
}

// tooLong returns the numbers of the lines that exceed the limit. Struct tags, markers of controller-gen and the rows of a generated table
// cannot be broken into lines.
func tooLong(text []byte) []int {
	var numbers []int
	generated := false
	for i, line := range bytes.Split(text, []byte("\n")) {
		generated = bytes.HasPrefix(line, []byte("<!-- The table is written by")) || generated && bytes.HasPrefix(line, []byte("|"))
		marker := bytes.HasPrefix(bytes.TrimSpace(line), []byte("// +kubebuilder:"))
		tag := bytes.HasSuffix(bytes.TrimSpace(line), []byte("`")) && bytes.Contains(line, []byte(` `+"`"+`envconfig:"`))
		if utf8.RuneCount(line) > maxLine && !marker && !tag && !generated {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func TestLongLinesAreFound(t *testing.T) {
	fits, exceeds := strings.Repeat("µ", maxLine), strings.Repeat("x", maxLine+1)
	marker, tag := "// +kubebuilder:"+exceeds, "\tImage string `envconfig:\"X\" desc:\""+exceeds+"\"`"
	if got := tooLong([]byte(fits + "\n" + exceeds + "\n" + marker + "\n" + exceeds + "\n" + tag)); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("lines %v are too long, want 2 and 4", got)
	}
	row := "| " + exceeds + " |\n"
	if got := tooLong([]byte(row + "<!-- The table is written by: x -->\n" + row + exceeds + "\n" + row)); !slices.Equal(got, []int{1, 4, 5}) {
		t.Errorf("lines %v around a generated table are too long, want 1, 4 and 5", got)
	}
	for name, limited := range map[string]bool{
		"shared/api/keys.go": true, "docs/resize.md": true, "config/policy/links.yaml": true, "Makefile": true,
		"config/crd/drydock.dev_scalers.yaml": false, "docs/reference/scaler.md": true, "shared/api/v1alpha1/zz_generated.deepcopy.go": false,
		"functions/backup/testdata/x.yaml": false, "go.sum": false,
	} {
		if limitsLines(name) != limited {
			t.Errorf("%s: limited %t, want %t", name, !limited, limited)
		}
	}
}

// namesTest matches the name of a test in a Markdown page, declaresTest its declaration in Go.
var (
	namesTest    = regexp.MustCompile(`\bTest[A-Z][a-z]\w+`)
	declaresTest = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
)

// TestDocsNameExistingTests checks that every test that a Markdown page names exists.
func TestDocsNameExistingTests(t *testing.T) {
	root := kit.Root(t)
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	declared := map[string]bool{}
	for _, file := range kit.Files(t, "*_test.go") {
		for _, match := range declaresTest.FindAllStringSubmatch(read(file), -1) {
			declared[match[1]] = true
		}
	}
	for _, page := range kit.Files(t, "*.md") {
		for _, name := range namesTest.FindAllString(read(page), -1) {
			if !declared[name] {
				t.Errorf("%s names %s, but no such test exists. Name the present one", page, name)
			}
		}
	}
	if len(declared) < 100 {
		t.Errorf("only %d tests were found", len(declared))
	}
}
