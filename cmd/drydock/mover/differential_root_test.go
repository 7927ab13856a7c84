//go:build linux && root

package mover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/test/seed"
)

// Random changes of the source and the target, between and during passes, never lead to a verified target that differs.
// MOVER_ROUNDS sets the number of trees, and MOVER_MKFS a file system with fine times.
// Invariants: I1.
func TestFinalPassEqualsSourceAfterRandomChanges(t *testing.T) {
	rounds := 8
	if s := os.Getenv("MOVER_ROUNDS"); s != "" {
		_, err := fmt.Sscan(s, &rounds)
		must(t, err)
	}
	mkfs := strings.Fields(os.Getenv("MOVER_MKFS"))
	src, dst := newVolume(t, 600, mkfs...), newVolume(t, 600, mkfs...)
	seeds := seed.Random(t)
	var trusted int64
	for i := range rounds {
		seed := seeds.Uint64()
		from, to := fmt.Sprintf("%s/%d", src.dir, i), fmt.Sprintf("%s/%d", dst.dir, i)
		must(t, os.Mkdir(from, 0o755))
		must(t, os.Mkdir(to, 0o755))
		trusted += differentialRound(t, rand.New(rand.NewPCG(seed, 2)), from, to)
		if t.Failed() {
			break
		}
		must(t, os.RemoveAll(from))
		must(t, os.RemoveAll(to))
	}
	t.Logf("%d files were trusted", trusted)
	if trusted == 0 {
		t.Error("no file was trusted")
	}
}

func differentialRound(t *testing.T, r *rand.Rand, from, to string) int64 {
	t.Helper()
	source := &mutator{r: rand.New(rand.NewPCG(r.Uint64(), 3)), root: from}
	target := &mutator{r: rand.New(rand.NewPCG(r.Uint64(), 4)), root: to}
	defer func() {
		if t.Failed() {
			t.Logf("source: %s", strings.Join(source.log, "\n"))
			t.Logf("target: %s", strings.Join(target.log, "\n"))
		}
	}()
	source.mutate(60 + r.IntN(100))
	var last Result
	for range 1 + r.IntN(4) {
		if r.IntN(4) > 0 {
			waitSettled()
		}
		last = differentialFirstPass(t, r, source, to, last)
		source.note("-- first pass: %d recorded, %d trusted", last.RecordedFiles, last.TrustedFiles)
		if r.IntN(3) > 0 {
			source.mutate(r.IntN(12))
		}
		if r.IntN(5) == 0 {
			target.mutate(1 + r.IntN(3))
		}
	}
	if r.IntN(4) == 0 {
		child{Source: from, Target: to, Pass: tree.PassFinal, KillAtFile: 1 + r.Int64N(6)}.try(t)
		source.note("-- killed final pass")
	}
	if r.IntN(2) == 0 {
		time.Sleep(2 * stampResolution) // so that the source is settled
	}
	o := finalPass(from, to)
	if r.IntN(4) > 0 {
		o.Last = last
	}
	o.Workers = 1 + r.IntN(4)
	final := copyTree(t, o)
	requireSameFacts(t, from, to)
	requireNoTemps(t, to)
	return final.TrustedFiles
}

// differentialFirstPass runs a first pass while the source changes. Some are cancelled. Then the last result stays.
func differentialFirstPass(t *testing.T, r *rand.Rand, changing *mutator, to string, last Result) Result {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := firstPass(changing.root, to)
	o.Last, o.Workers = last, 1+r.IntN(4)
	if r.IntN(3) == 0 {
		o.Settled = time.Hour // nothing is recorded, but hashes are kept
	}
	if r.IntN(2) == 0 {
		often := 5 + r.IntN(100)
		some := func() { changing.sometimes(often) }
		o.hooks.copying = func(string) { some() }
		o.hooks.wrote = func(string, int64) { some() }
		o.hooks.confirmed = func(string) { some() }
		o.hooks.synced = some
	}
	if cancelAt := r.Int64N(60); cancelAt > 0 && r.IntN(5) == 0 {
		var steps atomic.Int64
		o.hooks.wrote = func(string, int64) {
			if steps.Add(1) == cancelAt {
				cancel()
			}
		}
	}
	result, err := Copy(ctx, o)
	if err != nil && ctx.Err() == nil {
		t.Fatalf("first pass: %v", err)
	}
	if err != nil {
		return last
	}
	return result
}
