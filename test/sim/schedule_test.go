//go:build cluster

package sim

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/test/kit"
	"drydock.dev/test/seed"
)

var (
	part = flag.Int("part", 14, "how many of a hundred writes are tried in each way")
	at   = flag.Int("at", 0, "try only this write")
)

// tried counts the schedules, and undisturbed those that ended before their disturbance.
var tried, undisturbed atomic.Int64

// TestMain prints how many schedules were tried, and how to repeat them.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	kit.EndBorrowed()
	if missed := undisturbed.Load(); missed > max(2, tried.Load()/20) {
		fmt.Printf("%d of %d schedules ended before their disturbance, so they tested nothing. Find out why these runs have fewer writes "+
			"than the undisturbed run\n", missed, tried.Load())
		code = max(code, 1)
	}
	fmt.Printf("%d schedules tried, %d of a hundred; again with SEED=%d and -part=%d\n", tried.Load(), *part, seed.Number(), *part)
	os.Exit(code)
}

// schedule runs a test with one disturbance of an operation.
func schedule(t *testing.T, name string, try func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		tried.Add(1)
		try(t)
	})
}

// noteDisturbed counts the schedules that ended before their disturbance. Runs differ by a few writes, because controllers race, so a
// single one is no failure. TestMain limits their number.
func noteDisturbed(t *testing.T, disturbed bool) {
	if !disturbed {
		t.Log("this run has fewer writes than the undisturbed one, so it was not disturbed")
		undisturbed.Add(1)
	}
}

// schedules returns a sample of the write numbers from 1.
func schedules(t *testing.T, writes int) []int {
	if *at > 0 {
		return []int{*at}
	}
	ks := rand.New(rand.NewPCG(seed.Of(t), hash(t.Name()))).Perm(writes)[:sample(writes)]
	for i := range ks {
		ks[i]++
	}
	slices.Sort(ks)
	return ks
}

// sample returns the size of a sample of n, at least one.
func sample(n int) int { return max(1, min(n, n**part/100)) }

// seeds returns random seeds, a quarter as many as schedules of the writes.
func seeds(t *testing.T, writes int) []uint64 {
	first := seed.Of(t) + hash(t.Name())
	var all []uint64
	for i := range uint64(sample(max(1, writes/4))) {
		all = append(all, first+i)
	}
	return all
}

// hash gives each test a different sample from the same seed.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

var counts sync.Map // operation to func() int

// counted calls count once for all callers.
func counted(t *testing.T, what string, count func() int) int {
	once, _ := counts.LoadOrStore(what, sync.OnceValue(count))
	n := once.(func() int)()
	if n == 0 {
		t.Fatalf("the undisturbed run of %s has failed, so its writes are not known", what)
	}
	return n
}

// world returns one of many worlds on a busy machine. Its timeouts are long, because durations are not tested here.
func world(t *testing.T) *kit.World {
	w := kit.BorrowWorld(t)
	w.Patience = 5 * time.Minute
	for _, timeout := range []*time.Duration{&w.Settings.PlanTimeout, &w.Settings.ExpandTimeout, &w.Settings.ExpandPatience,
		&w.Settings.CopyTimeout,
		&w.Settings.QuiesceTimeout, &w.Settings.StartTimeout, &w.Settings.SwapTimeout, &w.Settings.ReadyTimeout,
		&w.Settings.CleanupTimeout} {
		*timeout = 10 * time.Minute
	}
	return w
}
