package scalehooks

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestTakeOverByPausedScalerRemembersCount: a paused Scaler wants three members. Its set has one and has lost its record.
func TestTakeOverByPausedScalerRemembersCount(t *testing.T) {
	in := observed(web(1, build.Template("data", "1Gi", "fixed")), pilot(editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })))
	for range 3 {
		for _, a := range Decide(in).Actions {
			in = in.afterAction(a)
		}
	}
	if record := operation.Of(in.Set).Scale; record == nil || !record.Paused || record.PausedCount != 3 {
		t.Errorf("the pause does not remember the members that come back: %s, count %d", build.Words(record), record.PausedCount)
	}
}

// oneToTen is an autoscaler.
var oneToTen = editScaler(func(s *v1alpha1.Scaler) {
	s.Spec.Mode = &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](1), MaxReplicas: 10}}
})

func recordIn(in Input) *api.Scale { return operation.Of(in.Set).Scale }

func completedJob(job *batchv1.Job) *batchv1.Job { return build.With(job.DeepCopy(), build.Complete()) }

// TestNewScalerDoesNotStartItsMaximum: a user has scaled a set to zero, and creates a Scaler without a count: it takes over
// the count of the set. It must not start the maximum of the autoscaler.
func TestNewScalerDoesNotStartItsMaximum(t *testing.T) {
	in := observed(web(0), pilot(withoutCount, oneToTen))
	end, _ := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n > 1 {
		t.Errorf("the set was at zero and has %d replicas, spec.replicas %d", n, ptr.Deref(end.Scalers[0].Spec.Replicas, -1))
	}
}

// TestPauseDoesNotRememberTheMaximum: a set has 3 members. Its Scaler is created paused, with an autoscaler from 1 to 10, a pre hook and
// no count. After the pause the set gets its 3 members, not 10.
func TestPauseDoesNotRememberTheMaximum(t *testing.T) {
	in := observed(web(3), pilot(withoutCount, withHooks, oneToTen, editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })))
	end, _ := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n != 0 {
		t.Fatalf("paused with %d", n)
	}
	end.Scalers[0] = end.Scalers[0].DeepCopy()
	end.Scalers[0].Spec.Paused = false
	most := int32(0)
	for range 100 {
		p := Decide(end)
		for _, a := range p.Actions {
			end = end.afterAction(a)
		}
		most = max(most, statefulset.Replicas(end.Set))
		if len(p.Actions) == 0 {
			before := statefulset.Replicas(end.Set)
			for i, job := range end.Jobs {
				end.Jobs[i] = completedJob(job)
			}
			end = withHookPods(end)
			end.Set = end.Set.DeepCopy()
			end.Set.Status.Replicas, end.Set.Status.ReadyReplicas, end.Set.Status.ObservedGeneration = before, before, end.Set.Generation
		}
	}
	if most > 3 {
		t.Errorf("a set of 3 members got %d after its first pause, and now has %d", most, statefulset.Replicas(end.Set))
	}
}

// TestPauseEndsBeforeItsScaling: whenScaled is Delete, so the pause is refused. The user ends the pause. The record must not stay
// paused: cleanup-pod would clean up nothing.
func TestPauseEndsBeforeItsScaling(t *testing.T) {
	set := web(1)
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete"}
	in := observed(set, pilot(wants(1), editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })))
	end, _ := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n != 1 {
		t.Fatalf("%d", n)
	}
	end.Scalers[0] = end.Scalers[0].DeepCopy()
	end.Scalers[0].Spec.Paused = false
	end, _ = playToEnd(t, end)
	if r := recordIn(end); r.Paused {
		t.Errorf("the set has its member, and no cleanup ever runs: %s", build.Words(r))
	}
}

// TestReplacedScalerKeepsTheCountBeforeThePause: a Scaler was paused with 3 members, and a manifest without a count replaces it.
func TestReplacedScalerKeepsTheCountBeforeThePause(t *testing.T) {
	before := withRecord(api.Succeeded, ofScaler("uid-before"), func(s *api.Scale) {
		s.Previous, s.Target, s.Paused, s.PausedCount = 3, 0, true, 3
	})
	end, _ := playToEnd(t, observed(web(0, before), pilot(withoutCount, oneToTen)))
	if n := statefulset.Replicas(end.Set); n != 3 {
		t.Errorf("the set had 3 members before the pause, now %d: %s", n, build.Words(recordIn(end)))
	}
}

// TestScalerAtZeroIsNotPaused: the user requests zero members, which disables the autoscaler. Nothing is paused. The user then
// requests one member.
func TestScalerAtZeroIsNotPaused(t *testing.T) {
	end, _ := playToEnd(t, observed(web(0), pilot(wants(0), withHooks, byHPA)))
	if r := recordIn(end); r.Paused {
		t.Errorf("cleanup-pod never cleans up: %s, count %d", build.Words(r), r.PausedCount)
	}
	end.Scalers[0] = pilot(wants(1), withHooks, byHPA)
	for range 10 {
		for _, a := range Decide(end).Actions {
			end = end.afterAction(a)
		}
	}
	if r := recordIn(end); r.Target > 1 {
		t.Errorf("the user requests 1 member, and %d start: %s", r.Target, build.Words(r))
	}
}

// TestPauseWithLostCountAsksForIt: a manifest without counts has replaced a paused Scaler, its set and their record. The set has the one
// replica that Kubernetes gives it then. If the Scaler took over that count, the other members would be removed after the pause.
func TestPauseWithLostCountAsksForIt(t *testing.T) {
	before := editScaler(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-web"} })
	in := observed(web(1), pilot(pausedScaler, withoutCount, before))
	end, _ := playToEnd(t, in)
	if end.Set.Annotations[api.ScaleAnnotation] != "" || *end.Set.Spec.Replicas != 1 {
		t.Errorf("the Scaler has taken over the count of the set: %s", end.Set.Annotations[api.ScaleAnnotation])
	}
	if healthy := meta.FindStatusCondition(end.Scalers[0].Status.Conditions, v1alpha1.ConditionHealthy); healthy == nil ||
		!strings.Contains(healthy.Message, "Set spec.replicas") {
		t.Errorf("condition Healthy: %+v", healthy)
	}
	end.Scalers[0] = build.With(end.Scalers[0], wants(3))
	if p := Decide(end); build.StoredScale(p) == nil || build.StoredScale(p).PausedCount != 3 {
		t.Errorf("with a count: %s", p)
	}
}
