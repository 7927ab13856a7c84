package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// source has a mutant of each kind. Its tests, below, miss two of them: always true for open, and always false for n < 0.
const source = `package door

func enter(open, key bool, n int) string {
	if n < 0 {
		return "no"
	}
	switch {
	case open && key || n == 7:
		return "in"
	}
	return "no"
}
`

const tests = `package door

import "testing"

func TestEnter(t *testing.T) {
	if enter(true, true, 1) != "in" || enter(true, false, 1) != "no" || enter(true, false, 7) != "in" || enter(true, false, -1) != "no" {
		t.Fatal()
	}
}
`

func TestUndetectedMutantsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module door\n\ngo 1.26\n", "door.go": source, "door_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := target{Dir: dir, Name: "door", GoFiles: []string{"door.go"}, TestGoFiles: []string{"door_test.go"}}
	total, missed, err := p.undetected()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range missed {
		got = append(got, m.String())
	}
	want := []string{"door.go:4 in enter, always false: n < 0", "door.go:8 in enter, always true: open"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || total != 6 {
		t.Errorf("of %d mutants, the tests miss\n%s\nwant 6, and\n%s", total, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNumberMayOnlyShrink(t *testing.T) {
	for says, c := range map[string]struct {
		now, before int
		known       bool
		want        string
	}{
		"as many":          {3, 3, true, ""},
		"more":             {4, 3, true, "Test the new conditions"},
		"fewer":            {2, 3, true, "Lower the number"},
		"no number so far": {2, 0, false, "has no number"},
	} {
		if got := judge("shared/door", c.now, c.before, c.known); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", says, got, c.want)
		}
	}
}

// TestNumbersAreThoseOfPackages: a package that was removed, or that has fewer conditions than its number, leaves room for new mutants.
func TestNumbersAreThoseOfPackages(t *testing.T) {
	root := kit.Root(t)
	text, err := os.ReadFile(filepath.Join(root, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(numbers) == 0 {
		t.Fatal("no package has a number")
	}
	if render(numbers) != string(text) {
		t.Errorf("%s is not as make mutants RECORD=1 writes it", recordFile)
	}
	for name, n := range numbers {
		files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		p := target{Dir: filepath.Join(root, name)}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				p.GoFiles = append(p.GoFiles, filepath.Base(file))
			}
		}
		if mutants, _, err := p.find(); err != nil || n > len(mutants) {
			t.Errorf("%s says %s %d, and the package has %d mutants (%v). Correct the line", recordFile, name, n, len(mutants), err)
		}
	}
}

func TestUnreadableNumbersAreErrors(t *testing.T) {
	for _, text := range []string{"shared/door", "shared/door many", "shared/door -1", "shared/door 1\nshared/door 2"} {
		if all, err := parse(text); err == nil {
			t.Errorf("%q was read as %v", text, all)
		}
	}
}
