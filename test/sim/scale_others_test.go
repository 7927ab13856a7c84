//go:build cluster

package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// meddler is another client at a write of a scaling.
type meddler struct {
	act func(s *scalingRun)
	// later is its second action, some ticks after the first. It may be nil.
	later  func(s *scalingRun)
	policy v1alpha1.ConflictPolicy
	// counts are also allowed at the end, besides the count of the user.
	counts []int32
	// gone: the Scaler is not created again.
	gone bool
}

var meddlers = map[string]meddler{
	"scales the set up, revert":   {act: scalesSet(5)},
	"scales the set down, revert": {act: scalesSet(0)},
	"scales the set up, adopt":    {act: scalesSet(5), policy: v1alpha1.ConflictAdopt, counts: []int32{5}},
	"scales the set down, adopt":  {act: scalesSet(0), policy: v1alpha1.ConflictAdopt, counts: []int32{0}},
	"scales the set up and down":  {act: func(s *scalingRun) { scalesSet(5)(s); scalesSet(s.to)(s) }},
	"scales the Scaler":           {act: func(s *scalingRun) { s.asked = true; s.scale(2) }, counts: []int32{2}},
	"deletes the Scaler":          {act: func(s *scalingRun) { s.deleteScaler("web") }, gone: true},
	"replaces the Scaler": {act: func(s *scalingRun) {
		s.deleteScaler("web")
		s.asked = true
		s.createScaler("web", s.to)
	}},
	"replaces the set": {act: func(s *scalingRun) {
		applyAgain(s.World, kit.WorldSet("web", s.from, "64Mi", "data"), metav1.DeletePropagationBackground)
	}},
	"deletes the hooks": {act: func(s *scalingRun) {
		for _, job := range s.hooks.jobs() {
			s.hooks.deleteJob(job.Name)
		}
	}},
	"creates a second Scaler": {act: func(s *scalingRun) { s.createScaler("other", 5) }},
	"removes the record": {act: func(s *scalingRun) {
		s.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.ScaleAnnotation))
	}},
	"forges a hook of another name":       {act: func(s *scalingRun) { s.forge() }},
	"takes the names of the hooks":        {act: func(s *scalingRun) { s.takeNames() }, later: func(s *scalingRun) { s.freeNames() }},
	"asks for a retry":                    {act: func(s *scalingRun) { s.annotateScaler(api.RetryAnnotation) }},
	"takes the set away from Drydock":     {act: opts("null"), later: opts(`"true"`)},
	"takes the set away and brings it on": {act: func(s *scalingRun) { opts("null")(s); opts(`"true"`)(s) }},
}

// scalesSet lets a client scale the set past the policies, as in a cluster without them.
func scalesSet(count int32) func(s *scalingRun) {
	return func(s *scalingRun) {
		body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, count)
		_, err := s.Kube.AppsV1().StatefulSets(s.Namespace).Patch(context.Background(), "web", types.MergePatchType, body,
			metav1.PatchOptions{FieldManager: "drydock"})
		ignore(s.t, err)
	}
}

func opts(value string) func(s *scalingRun) {
	return func(s *scalingRun) {
		s.PatchSet("web", fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, api.ManagedLabel, value))
	}
}

// operation returns the id of the set's scaling and the set's UID, or an empty string.
func (s *scalingRun) operation() (string, types.UID) {
	set := s.Set("web")
	if set == nil {
		return "", ""
	}
	if record, err := api.LoadScale(set); err == nil && record != nil {
		return record.Operation, set.UID
	}
	return "", set.UID
}

// forge creates a Job with the link of a hook, under a name that no hook has.
func (s *scalingRun) forge() {
	operation, uid := s.operation()
	link := api.Link{Operation: operation, Role: api.RoleScaleHook, Namespace: s.Namespace, Set: api.SetRef{Name: "web", UID: uid}}
	s.createJob("forged", map[string]string{api.OperationLabel: operation}, map[string]string{api.OperationAnnotation: link.Encode()})
}

// takeNames creates Jobs without a link under the unused names of the hooks.
func (s *scalingRun) takeNames() {
	if operation, _ := s.operation(); operation != "" {
		for _, hook := range []string{"pre", "post", "onFailure"} {
			s.createJob(api.ScaleHookName(operation, hook), nil, nil)
		}
	}
}

func (s *scalingRun) freeNames() {
	jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "!" + api.OperationLabel})
	ignore(s.t, err)
	for _, job := range jobs.Items {
		s.hooks.deleteJob(job.Name)
	}
}

func (s *scalingRun) createJob(name string, labels, annotations map[string]string) {
	container := corev1.Container{Name: "hook", Image: "dev.local/busybox:1"}
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	_, err := s.Kube.BatchV1().Jobs(s.Namespace).Create(context.Background(), job, metav1.CreateOptions{})
	ignore(s.t, err)
}

// Invariants: I1, I3, I4, I9.
func TestScalingSurvivesOthers(t *testing.T) {
	t.Parallel()
	for _, st := range []story{drains, grows, breaks, rests} {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			n := countScaling(t, st)
			for name, m := range meddlers {
				for _, k := range schedules(t, n) {
					schedule(t, fmt.Sprintf("another client %s after write %d", name, k), func(t *testing.T) { meddled(t, st, k, m) })
				}
			}
		})
	}
}

// patience is the number of ticks before a meddler's second action.
const patience = 8

func meddled(t *testing.T, st story, k int, m meddler) {
	st.policy = m.policy
	s, saboteur := newScaling(t, st), &kit.Saboteur{}
	monitor := monitorOf(s.World, saboteur, s.invariants.judge)
	act := func(action func(*scalingRun)) {
		s.disturbed = true
		action(s)
		s.invariants.sync()
	}
	saboteur.OnWrite = func(write string) {
		monitor.look(write)
		if !s.disturbed && len(saboteur.Writes()) >= k {
			act(m.act)
		}
	}
	drive, ticks := s.Drive(saboteur), 0
	s.Eventually("the scaling ends", func() string {
		_ = drive.Tick(context.Background())
		if s.disturbed {
			ticks++
		}
		if ticks == patience && m.later != nil {
			act(m.later)
		}
		if m.gone && s.disturbed {
			return s.released()
		}
		waits := s.step()
		if !s.disturbed && waits == "" { // this run has one write less
			act(m.act)
			return "it has just been disturbed"
		}
		if waits == "" && m.later != nil && ticks < patience {
			return "the other client is not done"
		}
		return waits
	})
	allowed := append([]int32{s.to}, m.counts...)
	if m.gone {
		allowed = append(allowed, s.from)
	}
	if m.gone && s.pauses { // the set keeps the count that it has
		allowed = append(allowed, 0)
	}
	s.judge(s.Drive(nil), allowed...)
	s.second()
	monitor.judge()
}

// released returns the remains of a deleted Scaler, or an empty string.
func (s *scalingRun) released() string {
	for _, key := range []string{api.ScaleAnnotation, api.StopAnnotation} {
		if text, left := s.Set("web").Annotations[key]; left {
			return key + " is " + text
		}
	}
	return strings.Join(s.hooks.left(), ", ")
}

// second checks that the status of a second Scaler says why it does nothing.
func (s *scalingRun) second() {
	other := s.Scaler("other")
	if other == nil {
		return
	}
	healthy := meta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionHealthy)
	if healthy == nil || healthy.Status != metav1.ConditionFalse || healthy.Reason != string(api.TargetTaken) {
		s.t.Errorf("the status of the second Scaler is %+v", other.Status)
	}
}

// TestScalingSurvivesDeletionOfItsJobs: another client deletes a Job as soon as its pod has ended. A required hook runs
// again. The onFailure hook does not.
// Invariants: I2.
func TestScalingSurvivesDeletionOfItsJobs(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"pre", "post", "onFailure"} {
		schedule(t, hook, func(t *testing.T) {
			st := drains
			if hook == "onFailure" {
				st = breaks
			}
			s, saboteur := newScaling(t, st), &kit.Saboteur{}
			s.hooks.deletes = hook
			monitor := monitorOf(s.World, saboteur, s.invariants.judge)
			s.judge(s.run(saboteur), st.to)
			monitor.judge()
			if s.hooks.deletes != "" {
				t.Error("no Job was deleted")
			}
		})
	}
}
