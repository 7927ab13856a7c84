//go:build cluster

package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/scaling"
	"drydock.dev/test/kit"
)

// story is a scaling by a Scaler with all hooks.
type story struct {
	name     string
	from, to int32
	// fails is the hook that fails until the user fixes it and retries. It may be empty.
	fails  string
	policy v1alpha1.ConflictPolicy
	// pauses: the user pauses the Scaler, and resumes it when no member is left.
	pauses bool
}

var (
	drains = story{name: "down", from: 3, to: 1}
	grows  = story{name: "up", from: 1, to: 3}
	breaks = story{name: "down, the hook before fails", from: 3, to: 1, fails: "pre"}
	rests  = story{name: "paused and back", from: 3, to: 3, pauses: true}
)

var stories = []story{drains, grows, breaks, rests}

// scalingRun is a world with a set and its Scaler, which a user scales.
type scalingRun struct {
	*kit.World
	story
	t *testing.T
	// asked: the user has scaled. retried: the user has fixed the hook and retried.
	asked, retried bool
	// disturbed: another client interferes, so the scaling may fail.
	disturbed  bool
	hooks      *scaleHooks
	invariants *scaleInvariants
}

func newScaling(t *testing.T, st story) *scalingRun {
	w := world(t)
	s := &scalingRun{World: w, story: st, t: t, hooks: &scaleHooks{World: w, fails: st.fails}}
	s.invariants = &scaleInvariants{scalingRun: s, targets: map[string]int32{}, jobs: map[types.UID]bool{}}
	w.CreateSet(kit.WorldSet("web", st.from, "64Mi", "data"))
	s.invariants.sync()
	s.createScaler("web", st.from)
	return s
}

// step plays the user and the machines with the hooks. It returns the reason to wait, or an empty string at the end.
func (s *scalingRun) step() string {
	s.hooks.play()
	scaler, set := s.Scaler("web"), s.Set("web")
	if scaler == nil || set == nil {
		return "the Scaler or the set is gone"
	}
	record, err := api.LoadScale(set)
	if err != nil {
		s.t.Fatal(err)
	}
	switch unsettled := s.unsettled(scaler, set, record); {
	case record != nil && record.Phase == api.Failed:
		return s.mend(scaler, record)
	case unsettled != "":
		return unsettled
	case !s.asked:
		s.asked = true
		s.ask()
		return "it has just been asked for"
	case scaler.Spec.Paused:
		s.patchScaler(map[string]any{"spec": map[string]any{"paused": false}})
		return "the members have just been asked back"
	case s.fails != "" && !s.retried && !s.disturbed:
		return "nothing has failed yet"
	}
	return ""
}

// ask does the first action of the user.
func (s *scalingRun) ask() {
	if s.pauses {
		s.patchScaler(map[string]any{"spec": map[string]any{"paused": true}})
		return
	}
	s.scale(s.to)
}

// mend checks a failed scaling, and retries as the condition says.
func (s *scalingRun) mend(scaler *v1alpha1.Scaler, record *api.Scale) string {
	s.t.Helper()
	healthy := meta.FindStatusCondition(scaler.Status.Conditions, v1alpha1.ConditionHealthy)
	switch {
	case scaler.Status.Stage != v1alpha1.StageFailed || scaler.Status.Operation != record.Operation:
		return fmt.Sprintf("the status tells %s of %s, and operation %s is %s", scaler.Status.Stage, scaler.Status.Operation,
			record.Operation, record.Phase)
	case scaler.Status.Failed == nil || healthy == nil || healthy.Reason == "" || healthy.Message == "":
		s.t.Errorf("it has failed without a reason: %+v", scaler.Status)
	case s.fails == "" && !s.disturbed:
		s.t.Fatalf("it has failed: %s", healthy.Message)
	}
	s.hooks.fails = ""
	if !scaling.Retried(scaler) {
		s.retried = true
		s.annotateScaler(api.RetryAnnotation)
	}
	return "it has just been retried"
}

// unsettled returns a difference between the Scaler, its status, the record and the set, or an empty string.
func (s *scalingRun) unsettled(scaler *v1alpha1.Scaler, set setType, record *api.Scale) string {
	status, live, wanted := scaler.Status, *set.Spec.Replicas, ptr.Deref(scaler.Spec.Replicas, -1)
	if scaler.Spec.Paused && wanted >= 0 {
		wanted = 0
	}
	switch {
	case record == nil || record.Phase != api.Succeeded:
		return fmt.Sprintf("the record is %+v", record)
	case live != wanted || record.Target != live:
		return fmt.Sprintf("the set has %d members, the record says %d, the Scaler %v", live, record.Target, scaler.Spec.Replicas)
	case set.Status.ReadyReplicas != live || set.Status.Replicas != live:
		return fmt.Sprintf("%d of %d members are ready", set.Status.ReadyReplicas, live)
	case status.Stage != v1alpha1.StageIdle || status.Operation != record.Operation || status.Failed != nil || status.Replicas != live:
		return fmt.Sprintf("the status is %+v", status)
	case status.ObservedGeneration != scaler.Generation || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionHealthy):
		return fmt.Sprintf("the status is %+v", status)
	case scaling.Retried(scaler):
		return "a retry waits"
	}
	return ""
}

// run ticks until the scaling has ended. It replaces functions that have died.
func (s *scalingRun) run(saboteur *kit.Saboteur) *kit.Drive {
	drive, fresh := s.Drive(saboteur), s.Drive(nil)
	s.Eventually("the scaling ends", func() string {
		if saboteur.Dead() {
			drive = fresh
		}
		_ = drive.Tick(context.Background()) // a dead process returns an error for every call
		return s.step()
	})
	return fresh
}

// judge checks the Jobs and the count at the end.
func (s *scalingRun) judge(drive *kit.Drive, counts ...int32) {
	s.t.Helper()
	s.Eventually("nothing is left behind (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(s.hooks.left(), ", ")
	})
	live := *s.Set("web").Spec.Replicas
	for _, count := range counts {
		if live == count {
			return
		}
	}
	s.t.Errorf("I4: the set has %d members, want one of %v", live, counts)
}

// countScaling returns the number of writes of an undisturbed scaling.
func countScaling(t *testing.T, st story) int {
	return counted(t, "scaling "+st.name, func() int {
		s, saboteur := newScaling(t, st), &kit.Saboteur{}
		monitor := monitorOf(s.World, saboteur, s.invariants.judge)
		s.judge(s.run(saboteur), st.to)
		monitor.judge()
		writes := saboteur.Writes()
		t.Logf("%s: %d writes:\n%s", st.name, len(writes), strings.Join(writes, "\n"))
		return len(writes)
	})
}

// TestScalingSurvivesEverySabotage: the set gets the requested count, and no member is removed before its hook.
// Invariants: I1, I2, I4, I6, I9.
func TestScalingSurvivesEverySabotage(t *testing.T) {
	t.Parallel()
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			n := countScaling(t, st)
			for _, what := range kit.Sabotages {
				for _, k := range schedules(t, n) {
					schedule(t, fmt.Sprintf("%s write %d", what, k), func(t *testing.T) {
						s, saboteur := newScaling(t, st), &kit.Saboteur{At: k, Failure: what}
						monitor := monitorOf(s.World, saboteur, s.invariants.judge)
						s.judge(s.run(saboteur), st.to)
						monitor.judge()
					})
				}
			}
		})
	}
}

// TestScalingWithRepeatedAndReorderedEvents delivers every event twice, in random order.
// Invariants: I7.
func TestScalingWithRepeatedAndReorderedEvents(t *testing.T) {
	t.Parallel()
	for _, chance := range seeds(t, 60) {
		st := stories[chance%uint64(len(stories))]
		schedule(t, fmt.Sprintf("%s, seed %d", st.name, chance), func(t *testing.T) {
			s, saboteur := newScaling(t, st), &kit.Saboteur{}
			monitor := monitorOf(s.World, saboteur, s.invariants.judge)
			drive := s.Drive(saboteur)
			drive.Shuffle = chance
			s.Eventually("the scaling ends", func() string {
				_ = drive.Tick(context.Background())
				return s.step()
			})
			s.judge(s.Drive(nil), st.to)
			monitor.judge()
		})
	}
}

// ignore drops the error of a write to an object that another client has deleted, created or changed.
func ignore(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
}
