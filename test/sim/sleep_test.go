//go:build cluster

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// means is how Drydock keeps the owner of a sleeping set from reverting the sleep: it pauses the owner, or the owner's
// operator stops the set itself.
type means struct {
	by   owners.Means
	row  owners.Row
	kind string
}

func meansOf(by owners.Means, group, kind string) means {
	row, _ := owners.BuiltIn().Find(group, kind)
	return means{by, row, kind}
}

var (
	pauses = meansOf(owners.ByPause, "redis.redis.opstreelabs.in", "RedisReplication")
	stops  = meansOf(owners.ByStop, "cassandra.datastax.com", "CassandraDatacenter")
)

// sleeper is a world with an owned set of three replicas, which falls asleep and then wakes.
type sleeper struct {
	*kit.World
	means
	t      *testing.T
	claims string // their UIDs: no claim is ever deleted
	// disturbed: a user interferes, so the set may not sleep at all.
	disturbed bool
}

func newSleeper(t *testing.T, by means) *sleeper {
	w := world(t)
	w.GrantPause(by.row.Operator)
	w.DefineKind(by.row, by.kind)
	resource := w.CreateCustom(by.row, by.kind, "main", map[string]any{"size": int64(3)}, nil)
	set := newSleepingSet()
	if by.by == owners.ByStop { // the API server denies it if it would delete the claims
		set.Spec.PersistentVolumeClaimRetentionPolicy = nil
	}
	w.CreateSet(set)
	w.SetController("web", resource)
	s := &sleeper{World: w, means: by, t: t}
	w.Eventually("the set is ready", func() string { return s.unready() })
	s.claims = s.ClaimUIDs()
	return s
}

func newSleepingSet() setType {
	set := kit.WorldSet("web", 3, "64Mi", "data")
	set.Spec.PersistentVolumeClaimRetentionPolicy = retention()
	set.Annotations[api.IdleTimeoutAnnotation] = "1h"
	set.Annotations[api.LastActivityAnnotation] = kit.Ago(2 * time.Hour)
	return set
}

// operate plays an operator that supports a stop.
func (s *sleeper) operate() {
	if s.by != owners.ByStop {
		return
	}
	want := int32(3)
	if s.row.Held(owners.ByStop, s.Custom(s.row, s.kind, "main")) {
		want = 0
	}
	if *s.Set("web").Spec.Replicas != want {
		s.Scale("web", int(want))
	}
}

func (s *sleeper) unready() string {
	if set := s.Set("web"); set == nil || set.Status.ReadyReplicas != *set.Spec.Replicas || *set.Spec.Replicas == 0 {
		return "it is not"
	}
	return ""
}

// step plays the user, who needs the set once it sleeps. It returns the reason to wait.
func (s *sleeper) step() string {
	set := s.Set("web")
	if set == nil {
		return "the set is gone"
	}
	s.operate()
	sleep, err := api.LoadSleep(set)
	if err != nil {
		s.t.Fatal(err)
	}
	_, woken := set.Annotations[api.AwakeUntilAnnotation]
	switch {
	case sleep != nil && sleep.Set.UID == set.UID && !sleep.Phase.Terminal():
		if sleep.Phase == api.Asleep && !woken {
			s.TryAnnotate("web", api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))
		}
		return fmt.Sprintf("phase %s: %s", sleep.Phase, sleep.Message)
	case !woken && !s.disturbed:
		return "it has not slept yet"
	}
	return ""
}

// run ticks until the set has slept and is awake again. It replaces functions that have died.
func (s *sleeper) run(saboteur *kit.Saboteur) *kit.Drive {
	drive, fresh := s.Drive(saboteur), s.Drive(nil)
	s.Eventually("the set has slept and is awake", func() string {
		if saboteur.Dead() {
			drive = fresh
		}
		_ = drive.Tick(context.Background()) // a dead process returns an error for every call
		return s.step()
	})
	return fresh
}

func (s *sleeper) judge(drive *kit.Drive, replicas ...int32) {
	s.t.Helper()
	set := s.Set("web")
	if !slices.Contains(replicas, *set.Spec.Replicas) {
		s.t.Errorf("I4: %d replicas, want one of %v", *set.Spec.Replicas, replicas)
	}
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; s.by == owners.ByPause && policy.WhenScaled != "Delete" {
		s.t.Errorf("whenScaled is %s, it was Delete", policy.WhenScaled)
	}
	s.Eventually("the set is ready", func() string { return s.unready() })
	if now := s.ClaimUIDs(); now != s.claims && len(replicas) == 1 { // a user who scales down a set with whenScaled Delete asks for that
		s.t.Errorf("I1: claims %s, were %s", now, s.claims)
	}
	s.Eventually("nothing is left behind (I9), and the owner is not held (I5)", func() string {
		s.operate()
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if left := s.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		now := s.Custom(s.row, s.kind, "main")
		if s.row.Held(s.by, now) || len(now.GetAnnotations()) != 0 {
			return fmt.Sprintf("the owner is %v", now.Object)
		}
		return ""
	})
}

// countSleep returns the number of writes of an undisturbed sleep and wake-up.
func countSleep(t *testing.T, by means) int {
	return counted(t, "sleep of "+by.kind, func() int {
		s, saboteur := newSleeper(t, by), &kit.Saboteur{}
		monitor := monitorOf(s.World, saboteur, sleepInvariants)
		s.judge(s.run(saboteur), 3)
		monitor.judge()
		writes := saboteur.Writes()
		t.Logf("%d writes:\n%s", len(writes), strings.Join(writes, "\n"))
		return len(writes)
	})
}

// sleepInvariants checks that the objects have the previous replica count of the set.
func sleepInvariants(_ *kit.World, set setType) string {
	sleep, err := api.LoadSleep(set)
	switch {
	case err != nil:
		return err.Error()
	case sleep.Active() && sleep.Set.UID != set.UID:
		return fmt.Sprintf("I3: the document is of set %s, this is %s", sleep.Set.UID, set.UID)
	case *set.Spec.Replicas != 3 && (sleep == nil || sleep.Phase.Terminal() || sleep.Replicas != 3):
		return fmt.Sprintf("I4: the set has %d replicas, and no document says 3", *set.Spec.Replicas)
	}
	return ""
}

// TestSleepSurvivesEverySabotage: three replicas sleep and wake, with every failure at write k.
// Invariants: I2, I4, I6, I9.
func TestSleepSurvivesEverySabotage(t *testing.T) { everySabotage(t, pauses) }

// TestSleepByOperatorSurvivesEverySabotage: the operator stops and starts the set itself.
// Invariants: I5.
func TestSleepByOperatorSurvivesEverySabotage(t *testing.T) { everySabotage(t, stops) }

func everySabotage(t *testing.T, by means) {
	t.Parallel()
	n := countSleep(t, by)
	for _, what := range kit.Sabotages {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("%s write %d", what, k), func(t *testing.T) {
				s, saboteur := newSleeper(t, by), &kit.Saboteur{At: k, Failure: what}
				monitor := monitorOf(s.World, saboteur, sleepInvariants)
				s.judge(s.run(saboteur), 3)
				monitor.judge()
			})
		}
	}
}

// meddling are actions of a user at a write of a sleep, with the allowed numbers of replicas at the end.
var meddling = map[string]struct {
	act      interference
	replicas []int32
}{
	"a user uses the set": {func(w *kit.World) { w.TryAnnotate("web", api.LastActivityAnnotation, idle.FormatTime(time.Now())) },
		[]int32{3}},
	"a user scales the set up": {func(w *kit.World) { w.TryScale("web", 4) }, []int32{3, 4}},
	"a user deletes the set and applies it again": {func(w *kit.World) {
		set := newSleepingSet()
		set.Annotations[api.LastActivityAnnotation] = kit.Ago(0) // the new claim is used
		applyAgain(w, set, metav1.DeletePropagationBackground)
	}, []int32{3}},
	"a user takes the operator's pause away": {func(w *kit.World) {
		w.TryUnannotateCustom(pauses.row, pauses.kind, "main", pauses.row.Pause[0].Key)
	}, []int32{3}},
}

// Invariants: I3, I4.
func TestSleepSurvivesOthers(t *testing.T) {
	t.Parallel()
	n := countSleep(t, pauses)
	for name, meddler := range meddling {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("%s after write %d", name, k), func(t *testing.T) {
				s := newSleeper(t, pauses)
				saboteur := &kit.Saboteur{}
				saboteur.OnWrite = func(string) {
					if !s.disturbed && len(saboteur.Writes()) >= k {
						s.disturbed = true
						meddler.act(s.World)
					}
				}
				s.judge(s.run(saboteur), meddler.replicas...)
			})
		}
	}
}

// TestSleepWithRepeatedAndReorderedEvents delivers every event twice, in random order.
// Invariants: I7.
func TestSleepWithRepeatedAndReorderedEvents(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 60) {
		schedule(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := newSleeper(t, pauses)
			drive := s.Drive(nil)
			drive.Shuffle = seed
			s.Eventually("the set has slept and is awake", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				return s.step()
			})
			s.judge(s.Drive(nil), 3)
		})
	}
}
