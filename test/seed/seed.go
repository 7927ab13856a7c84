// Package seed gives random tests their seed, so that each run of a test does the same. To try other random numbers, or to repeat a
// failure, set the environment variable SEED:
//
//	SEED=7 go test ./shared/turns
//	make test-fresh                # a new seed for every random test
package seed

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Number returns the number in SEED. Without SEED it is 1.
func Number() uint64 {
	text := os.Getenv("SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("reading SEED: %v", err)) // another seed would not repeat the failure
	}
	return n
}

// Of returns Number. If the test fails, the log has the seed.
func Of(t testing.TB) uint64 {
	t.Helper()
	n := Number()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SEED=%d repeats this run", n)
		}
	})
	return n
}

// Random returns random numbers that are the same in each run, from the seed of Of.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 1))
}

// Next returns n seeds, beginning with Of. So SEED can also be the seed of a failure.
func Next(t testing.TB, n int) iter.Seq[uint64] {
	t.Helper()
	first := Of(t)
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}
