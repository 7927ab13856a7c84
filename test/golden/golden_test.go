package golden

import (
	"strings"
	"testing"
)

// recorder is a test that takes its failures down.
type recorder struct {
	testing.TB
	failures []string
	cleanup  []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Name() string     { return "TestRecorded" }
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(format string, _ ...any) {
	r.failures = append(r.failures, format)
}

func (r *recorder) end() {
	for _, f := range r.cleanup {
		f()
	}
}

func TestEntriesAreCompared(t *testing.T) {
	for name, row := range map[string]struct {
		tell func(f *File, t testing.TB)
		want string // part of the only failure; empty for none
	}{
		"both entries, as in the file": {func(f *File, t testing.TB) {
			f.Entry(t, "the first", "plan: wait")
			f.Entry(t, "the second", "plan: do\n- patch\n")
		}, ""},
		"another text": {func(f *File, t testing.TB) {
			f.Entry(t, "the first", "plan: block")
			f.Entry(t, "the second", "plan: do\n- patch\n")
		}, "differs in entry"},
		"an entry is not told": {func(f *File, t testing.TB) { f.Entry(t, "the first", "plan: wait") }, "does not tell"},
		"a new situation": {func(f *File, t testing.TB) {
			f.Entry(t, "the first", "plan: wait")
			f.Entry(t, "the second", "plan: do\n- patch\n")
			f.Entry(t, "the third", "plan: noop")
		}, "has no entry"},
	} {
		r := &recorder{TB: t}
		f := &File{t: r, path: "testdata/TestRecorded.golden", got: map[string]string{},
			want: entries("## the first\nplan: wait\n\n## the second\nplan: do\n- patch\n\n")}
		r.Cleanup(f.close)
		row.tell(f, r)
		if !Updating() {
			r.end()
		}
		switch {
		case Updating():
		case row.want == "" && len(r.failures) > 0, row.want != "" && (len(r.failures) != 1 || !strings.Contains(r.failures[0], row.want)):
			t.Errorf("%s: failures %q, want %q", name, r.failures, row.want)
		}
	}
}
