package walks

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

// others are the writes of users and deployment tools in a walk.
type others struct {
	whenScaled         appsv1.PersistentVolumeClaimRetentionPolicyType // in the manifest of the set
	deletesScaler      bool
	removesAnnotations bool // as kubectl replace does
}

// TestSleepsOfSetWithScaler walks from a running set through sleeps, wake-ups and scalings. DRYDOCK_MODEL_WALKS is the number of walks.
func TestSleepsOfSetWithScaler(t *testing.T) {
	walks, err := strconv.Atoi(os.Getenv("DRYDOCK_MODEL_WALKS"))
	if err != nil {
		walks = 100
	}
	for name, o := range map[string]others{
		"the Scaler is deleted":                        {whenScaled: "Retain", deletesScaler: true},
		"claims are deleted with members":              {whenScaled: "Delete"},
		"annotations are removed":                      {whenScaled: "Delete", removesAnnotations: true},
		"annotations are removed, the Scaler, too":     {whenScaled: "Delete", removesAnnotations: true, deletesScaler: true},
		"annotations are removed, and claims are kept": {whenScaled: "Retain", removesAnnotations: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range seed.Next(t, walks) {
				w := newWorld(t, n, o.whenScaled)
				if problem := w.walk(o); problem != "" {
					t.Fatalf("seed %d: %s\n%s", n, problem, strings.Join(w.story, "\n"))
				}
			}
		})
	}
}

// walk takes 50 random steps, and then lets everything end. It returns what went wrong, or "".
func (w *world) walk(o others) string {
	for range 50 {
		if problem := w.step(o); problem != "" {
			return problem
		}
		if problem := w.unprotectedClaims(); problem != "" {
			return problem
		}
	}
	return w.settle(o)
}

// step takes a random step. It returns what went wrong, or "".
func (w *world) step(o others) string {
	switch n := w.random.IntN(16); {
	case n < 4:
		w.idleTimeout()
	case n < 8:
		w.scaleHooks()
	case n == 8:
		w.pauseOwner()
	case n == 9:
		return w.controller(w.random.IntN(2) == 0)
	case n == 10 && w.random.IntN(4) == 0:
		w.hooks(build.Failed("BackoffLimitExceeded", "it has failed"))
	case n == 10:
		w.hooks(build.Complete())
	case n == 11:
		w.noteActivity()
		w.tell("an activity")
	case n == 12:
		w.now = w.now.Add(time.Duration(w.random.IntN(120)) * time.Minute)
	case n == 13:
		w.user()
	default:
		w.tool(o)
	}
	return ""
}

// user creates the Scaler again, or requests a retry.
func (w *world) user() {
	if w.scaler == nil {
		w.createScaler()
		w.tell("a user creates the Scaler")
		return
	}
	w.scaler = build.With(w.scaler.DeepCopy(), build.Annotation(api.RetryAnnotation, ""))
	w.tell("a user requests a retry")
}

// tool restores a part of a manifest, ends the pause of the Scaler, or deletes the Scaler.
func (w *world) tool(o others) {
	switch w.random.IntN(8) {
	case 0:
		if statefulset.WhenScaled(w.set) != o.whenScaled && w.policyAllowsDelete() {
			w.change(build.WhenScaled(o.whenScaled))
			w.tell("a tool restores whenScaled")
		}
	case 1:
		if o.removesAnnotations && (statefulset.WhenScaled(w.set) == o.whenScaled || w.policyAllowsDelete()) {
			w.set = w.set.DeepCopy()
			delete(w.set.Annotations, api.SleepAnnotation)
			delete(w.set.Annotations, api.ScaleAnnotation)
			w.change(build.WhenScaled(o.whenScaled))
			w.tell("a tool replaces the set with its manifest")
		}
	case 2:
		if w.scaler != nil && w.scaler.Spec.Paused {
			w.scaler = w.scaler.DeepCopy()
			w.scaler.Spec.Paused = false
			w.tell("a tool ends the pause")
		}
	case 3:
		if o.deletesScaler {
			w.scaler, w.jobs = nil, nil
			w.tell("a tool deletes the Scaler")
		}
	}
}

// policyAllowsDelete repeats the expressions of config/policy/sleeping-sets.yaml. Change both together.
func (w *world) policyAllowsDelete() bool {
	sleep, scale := w.set.Annotations[api.SleepAnnotation], w.set.Annotations[api.ScaleAnnotation]
	contains := func(text string, fields ...string) bool {
		return slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(text, field) })
	}
	podsEnd := statefulset.Replicas(w.set) == 0 && w.set.Status.Replicas > 0
	comesBack := contains(sleep, `"phase":"Asleep"`, `"phase":"Waking"`, `"whenScaled":"Delete"`) || contains(scale, `"paused":true`)
	return !contains(sleep, `"phase":"Planned"`, `"phase":"Stopping"`) && !(comesBack && podsEnd)
}

// unprotectedClaims returns which members' claims cleanup-pod may delete although the user wants the members, or "".
func (w *world) unprotectedClaims() string {
	live, records := statefulset.Replicas(w.set), operation.Of(w.set)
	asleep := records.Sleeping() || live == 0 && len(w.records) > 0
	scaling := records.Scaling() && !records.AwaitsCleanup()
	paused := records.Scale != nil && records.Scale.Paused || live == 0 && w.scaler != nil && (w.scaler.Spec.Paused || records.Scale == nil)
	if live >= members || asleep || scaling || paused {
		return ""
	}
	return fmt.Sprintf("cleanup-pod may delete the claims of members from %d", live)
}

// settle lets the functions and the controllers act without crashes until nothing is left to do. The set is in use. It returns a problem
// of that state, or "".
func (w *world) settle(o others) string {
	w.tell("no more crashes; the set is in use")
	w.crashes = false
	for range 150 { // minutes
		w.noteActivity()
		for n := 0; n < 15 && w.idleTimeout(); n++ {
		}
		w.pauseOwner()
		for n := 0; n < 15 && w.scaleHooks(); n++ {
		}
		w.hooks(build.Complete())
		if lost := w.controller(true); lost != "" {
			return lost
		}
		if problem := w.unprotectedClaims(); problem != "" {
			return problem
		}
		if record := operation.Of(w.set).Scale; record != nil && record.Phase == api.Failed && w.scaler != nil {
			w.user()
		}
		w.now = w.now.Add(time.Minute)
	}
	switch {
	case statefulset.Replicas(w.set) != members:
		return fmt.Sprintf("the set has %d members", statefulset.Replicas(w.set))
	case w.scaler != nil && w.scaler.Spec.Paused:
		return "the Scaler stays paused"
	case statefulset.WhenScaled(w.set) != o.whenScaled:
		return "whenScaled is " + string(statefulset.WhenScaled(w.set))
	case len(w.records) > 0:
		return fmt.Sprintf("%d records of sleeps are left", len(w.records))
	}
	return ""
}
