//go:build linux

package tree

import (
	"math/rand/v2"
	"testing"

	"drydock.dev/test/seed"
)

// newRandom returns random numbers that are the same in each run. test/seed says how to get others.
func newRandom(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}
