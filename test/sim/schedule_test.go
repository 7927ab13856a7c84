//go:build cluster

package sim

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

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

type setType = *appsv1.StatefulSet

// retention returns a policy that deletes the claims of removed ordinals, so that a scale to zero would delete the
// data.
func retention() *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	return &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
}

// monitor checks after each write of Drydock that all invariants hold.
type monitor struct {
	w          *kit.World
	saboteur   *kit.Saboteur
	invariants invariants
	// loses: the user asks for a loss of data, so it is no failure.
	loses    bool
	reported bool
}

// invariants returns the first violation in the world, or an empty string. The set may be nil.
type invariants func(w *kit.World, set setType) string

// monitorOf returns a monitor that the saboteur calls after every write.
func monitorOf(w *kit.World, saboteur *kit.Saboteur, t invariants) *monitor {
	monitor := &monitor{w: w, saboteur: saboteur, invariants: t}
	saboteur.OnWrite = monitor.look
	return monitor
}

func (w *monitor) look(write string) {
	if !w.loses {
		for _, lost := range w.w.Node.LostData() {
			w.report("I1: after %s: %s", write, lost)
		}
	}
	for _, violation := range w.w.Node.Violations() {
		w.report("after %s: %s", write, violation)
	}
	if strings.HasPrefix(write, "POST ") && strings.HasSuffix(write, "/events") {
		return
	}
	if wrong := w.invariants(w.w, w.w.Set("web")); wrong != "" {
		w.report("after %s: %s", write, wrong)
	}
}

// report fails the test with the first violation only, because the later ones follow from it.
func (w *monitor) report(format string, args ...any) {
	w.w.T.Helper()
	if !w.reported {
		w.w.T.Errorf(format, args...)
	}
	w.reported = true
}

// budget returns a violation if a member was stopped although the budget allowed no further disruption.
func (w *monitor) budget(write string, before []string) {
	for _, name := range w.w.UnavailablePods("web", 2) {
		if !slices.Contains(before, name) {
			w.report("after %s: pod %s is away, and its budget does not allow it", write, name)
		}
	}
}

// judge reports the writes without effect.
func (w *monitor) judge() {
	w.w.T.Helper()
	for _, idle := range w.saboteur.Idle() {
		w.w.T.Errorf("I7: %s changed nothing", idle)
	}
}
