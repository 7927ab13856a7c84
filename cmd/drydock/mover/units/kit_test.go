//go:build linux

package units

import (
	"math/rand/v2"
	"os"
	"testing"

	"drydock.dev/test/seed"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newRandom returns random numbers that are the same in each run. test/seed says how to get others.
func newRandom(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}

// write creates a file.
func write(t testing.TB, path string, contents string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o644))
}
