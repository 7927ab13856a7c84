// Package golden keeps what tests expect of wording in files: plans, records, messages, stories of an operation. A wording can change
// without a change of a test:
//
//	make golden        # or: go test ./functions/restore -update
//	git diff           # read what changed, as a reviewer would
//
// A golden file is testdata/TEST.golden beside the test. It has an entry for each situation:
//
//	## the situation, in a sentence
//	the expectation
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is the only flag of its kind: every package with golden files takes it from here.
var update = flag.Bool("update", false, "write the golden files; review the difference")

// Updating reports whether the tests write their expectations instead of comparing with them.
func Updating() bool { return *update }

// Equal compares the text with the file testdata/TEST.golden of the test, or writes that file.
func Equal(t testing.TB, got string) {
	t.Helper()
	Is(t, path(t), got)
}

// Is compares the text with the file, whose path is relative to the test's package, or writes it.
func Is(t testing.TB, file, got string) {
	t.Helper()
	if Updating() {
		write(t, file, got)
		return
	}
	if want := read(t, file); got != want {
		t.Errorf(
			"%s differs (- is in the file, + is what the test got; write it with make golden)\n%s",
			file,
			cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")),
		)
	}
}

// File is the golden file of a test with an entry for each situation.
type File struct {
	t     testing.TB
	path  string
	want  map[string]string // the entries of the file, by situation
	order []string          // the situations that the test has told, in its order
	got   map[string]string
}

// Open returns the golden file of the test. When the test ends, the file is written with -update; without it, entries of situations that
// the test did not tell fail the test.
func Open(t testing.TB) *File {
	t.Helper()
	f := &File{t: t, path: path(t), got: map[string]string{}}
	if !Updating() {
		f.want = entries(read(t, f.path))
	}
	t.Cleanup(f.close)
	return f
}

// Entry compares the text with the entry of the situation. Call it with the subtest's t, where there is one.
func (f *File) Entry(t testing.TB, situation, got string) {
	t.Helper()
	got = strings.TrimRight(got, "\n") + "\n"
	if _, twice := f.got[situation]; twice {
		t.Errorf("%s: two situations are called %q", f.path, situation)
	}
	f.order = append(f.order, situation)
	f.got[situation] = got
	if Updating() {
		return
	}
	want, known := f.want[situation]
	switch {
	case !known:
		t.Errorf("%s has no entry %q (write it with make golden); the test got\n%s", f.path, situation, got)
	case got != want:
		t.Errorf(
			"%s differs in entry %q (- is in the file, + is what the test got; write it with make golden)\n%s",
			f.path,
			situation,
			cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")),
		)
	}
}

func (f *File) close() {
	some := strings.Contains(flag.Lookup("test.run").Value.String(), "/") // only some subtests ran
	if Updating() {
		if f.t.Failed() {
			return // the entries may be incomplete
		}
		if some {
			f.t.Errorf("%s is written only when all subtests run: give -run no name after a slash", f.path)
			return
		}
		var b strings.Builder
		for _, situation := range f.order {
			fmt.Fprintf(&b, "%s%s\n%s\n", heading, situation, f.got[situation])
		}
		write(f.t, f.path, b.String())
		return
	}
	if some {
		return
	}
	for situation := range f.want {
		if _, told := f.got[situation]; !told {
			f.t.Errorf("%s has an entry %q, which the test does not tell (remove it with make golden)", f.path, situation)
		}
	}
}

const heading = "## "

// entries returns the entries of a golden file by situation.
func entries(text string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split("\n"+text, "\n"+heading)[1:] {
		situation, body, _ := strings.Cut(part, "\n")
		all[situation] = strings.TrimRight(body, "\n") + "\n"
	}
	return all
}

// path returns the golden file of a test. Characters that file systems or Go modules do not take become hyphens.
func path(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|'`+"`", r) {
			return '-'
		}
		return r
	}, t.Name())
	return filepath.Join("testdata", name+".golden")
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file) // a file of the test
	if err != nil {
		t.Fatalf("reading the golden file: %v. Write it with make golden.", err)
	}
	return string(text)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
