// Package forged tests that no forged record makes Drydock write to a volume of another set. It generates random records, and the labels
// and annotations that a tenant can write, and judges the decisions of backup and restore.
package forged

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/functions/backup"
	"drydock.dev/functions/restore"
	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

const worlds = 2500

// TestForgedRecordWritesToNoForeignVolume prints the seed of a fixture that fails.
func TestForgedRecordWritesToNoForeignVolume(t *testing.T) {
	writes := 0
	for n := range seed.Next(t, worlds) {
		writes += attack(t, n)
		if t.Failed() {
			break
		}
	}
	if writes < worlds/20 && !t.Failed() {
		t.Errorf("only %d writes to the set's own volumes: the fixtures are too unrealistic to show anything", writes)
	}
}

// attack writes several forged records, one after the other, and lets both functions act on each. It returns the number of writes to
// volumes.
func attack(t *testing.T, seed uint64) int {
	t.Helper()
	w := newWorld(seed)
	writes := 0
	for range 3 {
		record := w.forge()
		w.observed.Set = build.Set("web", build.Status(record), build.Template("data", "128Mi", build.Class),
			build.Replicas([]int32{0, 0, 3}[w.random.IntN(3)]))
		w.observed.SetJSON = build.JSON(w.observed.Set)
		w.changeOtherObjects()
		for range 12 {
			functions := []api.Function{api.Backup, api.Restore}
			plans := []plan.Plan{
				backup.Decide(backup.Input{Input: moving.Input{Observed: w.observed, Settings: build.Settings()},
					Progress: map[int]moverreport.Progress{}}),
				restore.Decide(restore.Input{Input: moving.Input{Observed: w.observed, Settings: build.Settings()}, Namespace: build.Namespace,
					Waited: time.Minute}),
			}
			for i, p := range plans {
				for _, problem := range w.judge(functions[i], p) {
					t.Errorf("seed %d: %s\nplan %s\nrecord %s", seed, problem, p, w.observed.Set.Annotations[api.StatusAnnotation])
				}
			}
			n, changed := w.apply(plans[w.random.IntN(2)])
			writes += n
			if !changed || t.Failed() {
				break
			}
		}
	}
	return writes
}

// judge returns the wrong writes of a function's plan, above all those to foreign volumes.
func (w *fixture) judge(by api.Function, p plan.Plan) []string {
	var problems []string
	for _, a := range p.Actions {
		if a.Verb == plan.VerbCreate && a.Resource == plan.ControllerRevisions {
			problems = append(problems, w.judgeJournal(a.Object.(*appsv1.ControllerRevision))...)
		}
		if a.Verb == plan.VerbPatch && a.Resource == plan.StatefulSets {
			if err := build.CheckStep(by, w.observed.Set, a); err != nil {
				problems = append(problems, err.Error())
			}
		}
		if a.Resource != plan.Volumes {
			continue
		}
		volume := w.observed.Volumes[a.Name]
		if why := w.foreign[a.Name]; why != "" {
			problems = append(problems, "writes to "+why)
		}
		for _, op := range a.Ops {
			found := volume.Annotations[api.ReclaimPolicyAnnotation]
			if op.Value == corev1.PersistentVolumeReclaimDelete && found != string(corev1.PersistentVolumeReclaimDelete) && !w.copies[a.Name] {
				problems = append(problems, "sets the reclaim policy Delete on a volume that had Retain")
			}
		}
	}
	return problems
}

// judgeJournal returns the claims that a journal records with volumes that they are not bound to.
func (w *fixture) judgeJournal(revision *appsv1.ControllerRevision) []string {
	var problems []string
	journal, err := api.LoadJournal(revision)
	if err != nil {
		return []string{err.Error()}
	}
	for _, move := range journal.Record.Moves() {
		claim, volume := w.observed.Claim(move.Claim), w.observed.Volume(move.OldVolume)
		if claim == nil || volume == nil || !statefulset.Bound(claim, volume) {
			problems = append(problems, fmt.Sprintf("records that claim %s has volume %s", move.Claim, move.OldVolume))
		}
	}
	return problems
}

// apply executes the writes of a plan to volumes, claims, pods, journals and the set. It returns the number of writes to volumes, and
// whether anything changed.
func (w *fixture) apply(p plan.Plan) (volumes int, changed bool) {
	written := map[string]bool{}
	for _, a := range p.Actions {
		if a.Verb == plan.VerbPatch && written[a.Name] {
			return volumes, changed // the API server answers 409, because the resourceVersion has changed
		}
		written[a.Name] = a.Verb == plan.VerbPatch
		switch {
		case a.Verb == plan.VerbCreate && a.Resource == plan.ControllerRevisions:
			journal := a.Object.(*appsv1.ControllerRevision)
			journal.CreationTimestamp = metav1.NewTime(build.Now)
			w.observed.Journals = append(w.observed.Journals, journal)
			changed = true
		case a.Verb == plan.VerbPatch && a.Resource == plan.Volumes:
			w.observed.Volumes[a.Name] = build.After(w.observed.Volumes[a.Name], a)
			volumes, changed = volumes+1, true
		case a.Verb == plan.VerbPatch && a.Resource == plan.Claims:
			for i, c := range w.observed.Claims {
				if c.Name == a.Name {
					w.observed.Claims[i] = build.After(c, a)
				}
			}
			changed = true
		case a.Verb == plan.VerbPatch && a.Resource == plan.Pods:
			for i, pod := range w.observed.Pods {
				if pod.Name == a.Name {
					w.observed.Pods[i] = build.After(pod, a)
				}
			}
			changed = true
		case a.Verb == plan.VerbPatch && a.Resource == plan.StatefulSets:
			w.observed.Set = build.After(w.observed.Set, a)
			changed = true
		}
	}
	return volumes, changed
}
