package cleanuppod

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/functions/scalehooks"
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMembersOfPausedScalerAreNotCleanedUp: the replica count does not matter, because another client may have changed it.
func TestMembersOfPausedScalerAreNotCleanedUp(t *testing.T) {
	record := func(phase api.Phase) build.Option {
		return build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale,
			Operation: build.ID,
			Phase:     phase, Set: api.SetRef{Name: "web", UID: "uid-web"}}, Paused: true, Adopts: true}).Encode())
	}
	for name, in := range map[string]Input{
		"at zero": on(web(build.Replicas(0), record(api.Succeeded), settledRecord(0)), usedClaim("data-web-0"), usedClaim("data-web-1")),
		"the members could not be restored": on(web(build.Replicas(0), record(api.Failed), settledRecord(0)), usedClaim("data-web-0"),
			usedClaim("data-web-1")),
		"another client has started a member": on(web(build.Replicas(1), record(api.Succeeded), settledRecord(1)),
			usedClaim("data-web-0"), usedClaim("data-web-1")),
		"another client has started a member, and the scaling failed": on(web(build.Replicas(1), record(api.Failed), settledRecord(1)),
			usedClaim("data-web-0"), usedClaim("data-web-1")),
	} {
		if p := Decide(in); p.Kind == plan.KindDo {
			t.Errorf("%s: %s, want no action", name, p)
		}
	}
}

// TestScalerKeepsMembersAway: a manifest may remove the set's record while the members are being restored.
func TestScalerKeepsMembersAway(t *testing.T) {
	for name, c := range map[string]struct {
		scaler v1alpha1.ScalerSpec
		record *api.Scale
		want   bool
	}{
		"the Scaler is paused": {v1alpha1.ScalerSpec{Paused: true}, &api.Scale{}, true},
		"the record is lost":   {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](3)}, nil, true},
		"the record is lost, and the Scaler wants no replica": {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](0)}, nil, false},
		"the record says that it was no pause":                {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](3)}, &api.Scale{}, false},
	} {
		if got := keepsMembersAway(&c.scaler, c.record); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestMembersThatTheScalerWantsAreKept: another client has scaled the set below the count of its Scaler, which will restore it. While the
// count is contested, that takes minutes.
func TestMembersThatTheScalerWantsAreKept(t *testing.T) {
	failed := func(previous, target int32) api.Scale {
		return api.Scale{Header: api.Header{Phase: api.Failed, FailedAt: api.PreScaling}, Previous: previous, Target: target}
	}
	succeeded := func(target int32, adopts bool) api.Scale {
		return api.Scale{Header: api.Header{Phase: api.Succeeded}, Previous: target, Target: target, Adopts: adopts}
	}
	for name, row := range map[string]struct {
		live   int32
		record api.Scale
		starts bool
	}{
		"the Scaler wants three":                     {1, succeeded(3, false), false},
		"it adopts the counts of other clients":      {1, succeeded(3, true), true},
		"it wants one":                               {1, succeeded(1, false), true},
		"a scaling to three has failed at its start": {1, failed(1, 3), false},
		"the members could not be drained":           {1, failed(3, 1), false},
	} {
		row.record.Version, row.record.Kind, row.record.Operation, row.record.Attempt = api.RecordVersion, api.KindScale, build.ID, 1
		row.record.Set, row.record.Scaler = api.SetRef{Name: "web", UID: "uid-web"}, api.ScalerRef{Name: "pilot", UID: "uid-pilot"}
		in := on(web(build.Replicas(row.live), settledRecord(3), build.Annotation(api.ScaleAnnotation, row.record.Encode())),
			usedClaim("data-web-1"), usedClaim("data-web-2"))
		if p := Decide(in); (p.Reason == api.CleanupStarted) != row.starts {
			t.Errorf("%s: %s, want a cleanup: %t", name, p, row.starts)
		}
	}
}

// TestCleanupFollowsWhenScalerGivesMembersUp: another client has scaled the set below the count of its Scaler, and cleanup-pod has looked.
// Then the user requests that count of the Scaler, which changes only the Scaler's record.
func TestCleanupFollowsWhenScalerGivesMembersUp(t *testing.T) {
	scaler := func(target int32) build.Option {
		record := api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID, Attempt: 1,
			Phase: api.Succeeded, Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"},
			Previous: target, Target: target}
		return build.Annotation(api.ScaleAnnotation, record.Encode())
	}
	set := web(build.Replicas(1), build.ReplicaCounts(1, 1), settledRecord(3), scaler(3))
	set.Generation, set.Status.ObservedGeneration = 7, 7
	claims := []metav1.Object{usedClaim("data-web-1"), usedClaim("data-web-2")}
	p := Decide(on(append([]metav1.Object{set}, claims...)...))
	looked := build.StoredCleanup(p)
	if looked == nil {
		t.Fatalf("%s", p)
	}
	set = build.With(set.DeepCopy(), build.Annotation(api.CleanupAnnotation, looked.Encode()), scaler(1))
	change := operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: true}
	if p := Decide(on(append([]metav1.Object{set}, claims...)...)); p.Reason != api.CleanupStarted || len(cleanup.Concerned(change)) == 0 {
		t.Errorf("concerns %v; %s", cleanup.Concerned(change), p)
	}
}

// TestMembersOfNewScalerAreKept: a set that was created again without replicas has one member, and no record of its Scaler, which wants
// three. scale-hooks takes the set over with the next tick.
func TestMembersOfNewScalerAreKept(t *testing.T) {
	for name, row := range map[string]struct {
		wants, starts int
		target        string
	}{
		"the Scaler wants the members": {3, 0, "web"},
		"it wants two":                 {2, 1, "web"},
		"it wants fewer":               {1, 2, "web"},
		"it scales another set":        {3, 2, "other"},
	} {
		lists := read(web(build.Replicas(1)), replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"))
		lists["scalers"] = append(lists["scalers"], &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot"},
			Spec: v1alpha1.ScalerSpec{Target: row.target, Replicas: ptr.To(int32(row.wants))}})
		in := observed(t, lists)
		p := Decide(in)
		if left := in.leftBehind(nil, in.ordinals()); len(left) != row.starts || (p.Reason == api.CleanupStarted) != (row.starts > 0) {
			t.Errorf("%s: %s, and %d ordinals to clean up, want %d", name, p, len(left), row.starts)
		}
	}
}

// TestRetryOfScalingRepeatsFailedCleanup: the user retries a scaling that has failed because of its cleanup.
func TestRetryOfScalingRepeatsFailedCleanup(t *testing.T) {
	for after, starts := range map[time.Duration]bool{time.Second: true, -time.Second: false} {
		failed := func(s *api.Cleanup) { s.Finished = operation.Moment(build.Now) }
		scaling := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID, Attempt: 2,
			Phase: api.PostScaling, Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now.Add(after))},
			Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 2, Target: 1, CleansUp: true}
		set := web(build.Replicas(1), failedCleanup(failed), build.Annotation(api.ScaleAnnotation, scaling.Encode()))
		in := on(set, replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"))
		if p := Decide(in); (p.Reason == api.CleanupStarted) != starts {
			t.Errorf("the scaling began %s after the failure: %s", after, p)
		}
		change := operation.Change{Set: set, Records: operation.Of(set), Now: build.Now}
		if woken := len(cleanup.Concerned(change)) > 0; starts && !woken {
			t.Error("cleanup-pod is not woken")
		}
	}
}

// TestMembersOfScalerWithoutRecordAreKept: a deployment tool replaces a set with a manifest without replicas (kubectl replace, Argo CD with
// Replace=true). The set keeps its UID, has one member, and has lost all records. Members that its Scaler will start again are kept.
func TestMembersOfScalerWithoutRecordAreKept(t *testing.T) {
	three, one := ptr.To[int32](3), ptr.To[int32](1)
	for situation, row := range map[string]struct {
		scaler v1alpha1.ScalerSpec
		kept   bool
	}{
		"paused, by its user or by a sleep": {v1alpha1.ScalerSpec{Replicas: three, Paused: true}, true},
		"paused, without a count":           {v1alpha1.ScalerSpec{Paused: true}, true},
		"fixed, without replicas":           {v1alpha1.ScalerSpec{Mode: &v1alpha1.ScalerMode{Fixed: three}}, true},
		"fixed, with other replicas":        {v1alpha1.ScalerSpec{Replicas: one, Mode: &v1alpha1.ScalerMode{Fixed: three}}, true},
		"autoscaled, without replicas": {v1alpha1.ScalerSpec{Mode: &v1alpha1.ScalerMode{
			HPA: &v1alpha1.Autoscaler{MinReplicas: one, MaxReplicas: 3}}}, true},
		"autoscaled by CPU, to at least three": {v1alpha1.ScalerSpec{Replicas: one, Mode: &v1alpha1.ScalerMode{
			Auto: &v1alpha1.AutoMode{Min: 3, Max: 9}}}, true},
		"one member is wanted":                  {v1alpha1.ScalerSpec{Replicas: one}, false},
		"it takes over the count of the set":    {v1alpha1.ScalerSpec{}, false},
		"paused, and one member will come back": {v1alpha1.ScalerSpec{Replicas: one, Paused: true}, false},
	} {
		row.scaler.Target = "web"
		lists := read(web(build.Replicas(1)), replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"))
		lists["scalers"] = append(lists["scalers"], &v1alpha1.Scaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot"}, Spec: row.scaler})
		in := observed(t, lists)
		if p := Decide(in); (p.Reason != api.CleanupStarted) != row.kept {
			t.Errorf("%s: %s", situation, p)
		}
	}
}

// TestCleanupEndsForNewScaler: a set was scaled to zero and is being cleaned up. The user creates a Scaler with three members.
func TestCleanupEndsForNewScaler(t *testing.T) {
	for name, paused := range map[string]bool{"not paused": false, "paused": true} {
		set := web(build.Replicas(0), build.ReplicaCounts(0, 0), cleaning())
		lists := read(set, usedClaim("data-web-0"), usedClaim("data-web-1"))
		scaler := &v1alpha1.Scaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5"},
			Spec:       v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: paused}}
		lists["scalers"] = append(lists["scalers"], scaler)
		in := observed(t, lists)
		p := Decide(in)
		q := scalehooks.Decide(scalehooks.Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set,
			Scalers: []*v1alpha1.Scaler{scaler}})
		touches := false
		for _, a := range q.Actions {
			touches = touches || a.Resource == plan.StatefulSets
		}
		if p.Kind == plan.KindNoop && !touches {
			t.Errorf("%s: cleanup-pod waits for the Scaler, and scale-hooks for the cleanup, for ever", name)
		}
	}
}
