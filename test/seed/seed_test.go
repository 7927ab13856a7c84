package seed

import (
	"fmt"
	"slices"
	"testing"
)

// failed is a failed test that keeps its log.
type failed struct {
	testing.TB
	log string
	end []func()
}

func (f *failed) Failed() bool                    { return true }
func (f *failed) Cleanup(do func())               { f.end = append(f.end, do) }
func (f *failed) Logf(format string, args ...any) { f.log += fmt.Sprintf(format, args...) }

func TestFailureNamesTheSeedThatRepeatsIt(t *testing.T) {
	for text, want := range map[string]uint64{"": 1, "7": 7, "0": 0} {
		t.Setenv("SEED", text)
		f := &failed{TB: t}
		if got := slices.Collect(Next(f, 3)); !slices.Equal(got, []uint64{want, want + 1, want + 2}) {
			t.Errorf("SEED=%q: %d", text, got)
		}
		for _, do := range f.end {
			do()
		}
		if f.log != fmt.Sprintf("SEED=%d repeats this run", want) {
			t.Errorf("SEED=%q: the log is %q", text, f.log)
		}
	}
}

func TestInvalidSeedIsNoOtherSeed(t *testing.T) {
	t.Setenv("SEED", "seven")
	defer func() {
		if recover() == nil {
			t.Error("a seed that is no number was replaced")
		}
	}()
	t.Errorf("the seed is %d", Number())
}
