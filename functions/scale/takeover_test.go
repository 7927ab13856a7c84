package scale

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestTakeOverByPausedScalerRemembersCount: a paused Scaler wants three members. Its set has lost its record.
func TestTakeOverByPausedScalerRemembersCount(t *testing.T) {
	for live, want := range map[int32]int32{1: 1, 0: 3} { // the Stop has the count of the pods that it has stopped
		end, _ := playToEnd(t, observed(web(live, build.Template("data", "1Gi", "fixed")), pilot(pausedScaler)))
		stop := api.LoadStop(end.Set)
		if record := recordIn(end); !record.Paused || !stop.Pending() || stop.Replicas != want || *end.Set.Spec.Replicas != 0 {
			t.Errorf("from %d: %s, stop %s", live, build.Words(record), build.Words(stop))
		}
		end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
		if end, _ = playToEnd(t, end); *end.Set.Spec.Replicas != 3 {
			t.Errorf("from %d: %d members come back, want 3", live, *end.Set.Spec.Replicas)
		}
	}
}

// oneToTen is an autoscaler.
var oneToTen = editScaler(func(s *v1alpha1.Scaler) {
	s.Spec.Mode = &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](1), MaxReplicas: 10}}
})

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
	in := observed(web(3), pilot(withoutCount, withHooks, oneToTen, pausedScaler))
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

// TestPauseEndsBeforeItsScaling: a user pauses the Scaler while its set is taken over, and ends the pause before the scaling begins. The
// record must not stay paused: no later scale-down would become an order.
func TestPauseEndsBeforeItsScaling(t *testing.T) {
	in := observed(web(1), pilot(wants(1), pausedScaler))
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	if r := recordIn(in); r == nil || !r.Paused || *in.Set.Spec.Replicas != 1 {
		t.Fatalf("the set was not taken over with its member: %s", build.Words(r))
	}
	in.Scalers[0] = build.With(in.Scalers[0].DeepCopy(), resumed)
	end, _ := playToEnd(t, in)
	if r := recordIn(end); r.Paused || *end.Set.Spec.Replicas != 1 {
		t.Errorf("the set has its member, and no scale-down becomes an order: %s", build.Words(r))
	}
}

// TestReplacedScalerKeepsTheCountBeforeThePause: a Scaler was paused with 3 members, and a manifest without a count replaces it.
func TestReplacedScalerKeepsTheCountBeforeThePause(t *testing.T) {
	end, _ := playToEnd(t, observed(pausedSet(0, api.Succeeded, ofScaler("uid-before"), pausedAtZero), pilot(withoutCount, oneToTen)))
	if n := statefulset.Replicas(end.Set); n != 3 {
		t.Errorf("the set had 3 members before the pause, now %d: %s", n, build.Words(recordIn(end)))
	}
}

// TestScalerAtZeroIsNotPaused: the user requests zero members, which disables the autoscaler. Nothing is paused. The user then
// requests one member.
func TestScalerAtZeroIsNotPaused(t *testing.T) {
	end, _ := playToEnd(t, observed(web(0), pilot(wants(0), withHooks, byHPA)))
	if r := recordIn(end); r.Paused || api.LoadStop(end.Set) != nil {
		t.Errorf("no scale-down becomes an order: %s, stop %s", build.Words(r), build.Words(api.LoadStop(end.Set)))
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

// TestReplacedManifestsKeepTheCountBeforeThePause: manifests without counts have replaced a paused Scaler, its set and all records on it.
// The set has the one replica that Kubernetes gives it then. The record of the stop has the count.
func TestReplacedManifestsKeepTheCountBeforeThePause(t *testing.T) {
	for name, row := range map[string]struct {
		live int32
		copy *appsv1.ControllerRevision
		want int32
	}{
		"it has one replica":             {1, resources.MakeStopRecord(web(0), stopOfPause()), 3},
		"it is at zero":                  {0, resources.MakeStopRecord(web(0), stopOfPause()), 3},
		"the record belongs to a former": {1, resources.MakeStopRecord(web(0), stopOfPause(ofFormerSet)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			end, _ := playToEnd(t, observed(web(row.live), pilot(pausedScaler, withoutCount), row.copy))
			if n := *end.Set.Spec.Replicas; n != 0 || !recordIn(end).Paused {
				t.Errorf("paused with %d replicas: %s", n, build.Words(recordIn(end)))
			}
			end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
			if end, _ = playToEnd(t, end); *end.Set.Spec.Replicas != row.want {
				t.Errorf("%d members come back, want %d", *end.Set.Spec.Replicas, row.want)
			}
		})
	}
}

// ofFormerSet is for the Stop of a deleted set with the same name.
func ofFormerSet(s *api.Stop) { s.Set.UID = "uid-before" }

// TestMembersAreDrainedAfterLostRecord: a manifest has removed all annotations of a paused set, and its Scaler takes it over again.
func TestMembersAreDrainedAfterLostRecord(t *testing.T) {
	in := observed(web(0), pilot(withPreHook, pausedScaler)) // requests 3
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(), wants(1), resumed)}
	end, hooks := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n != 1 || !slices.ContainsFunc(hooks, drained("1,2")) {
		t.Errorf("%d replicas, hooks %v", n, hooks)
	}
}
