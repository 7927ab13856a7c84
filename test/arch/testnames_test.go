package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"drydock.dev/test/kit"
)

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
