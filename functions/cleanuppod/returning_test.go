package cleanuppod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/functions/scalehooks"
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// afterPlan returns the set after the plan's patches of it.
func afterPlan(set *appsv1.StatefulSet, p plan.Plan) *appsv1.StatefulSet {
	for _, a := range p.Actions {
		if a.Resource == plan.StatefulSets && a.Verb == plan.VerbPatch && a.Name == set.Name {
			set = patched(set, a)
		}
	}
	return set
}

// decideWith decides about the set with the claims of so many members and the Scaler.
func decideWith(t *testing.T, set *appsv1.StatefulSet, scaler *v1alpha1.Scaler, claims int) plan.Plan {
	t.Helper()
	objects := []metav1.Object{set}
	for i := range claims {
		objects = append(objects, usedClaim(fmt.Sprintf("data-web-%d", i)))
	}
	lists := read(objects...)
	lists["scalers"] = append(lists["scalers"], scaler)
	in := observed(t, lists)
	return Decide(in)
}

// pilot returns a Scaler of the set.
func pilot(spec v1alpha1.ScalerSpec) *v1alpha1.Scaler {
	spec.Target = "web"
	return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5"},
		Spec: spec}
}

// TestSlowOperatorKeepsClaims: an operator has stopped a set of three members for its sleep, and starts them one by one.
func TestSlowOperatorKeepsClaims(t *testing.T) {
	stopped := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		gone := func(s *api.Sleep) { s.PodsGoneAt = ptr.To(s.Started) }
		return build.WithSleep(build.Sleep(phase, append([]func(*api.Sleep){build.OwnerStops(), build.SleepStarted(9 * time.Hour), gone},
			options...)...))
	}
	for name, row := range map[string]struct {
		options []build.Option
		later   time.Duration // between the observations
	}{
		"the first two members need longer than DRYDOCK_READY_TIMEOUT": {[]build.Option{build.Replicas(2),
			stopped(api.Waking, build.SleepDue(-time.Second))}, 0},
		"the user ended the stop in the custom resource": {[]build.Option{build.Replicas(1), stopped(api.Asleep)}, time.Minute},
		"another set of the custom resource woke first": {[]build.Option{build.Replicas(1), build.AwakeFor(time.Hour),
			stopped(api.Asleep)}, time.Minute},
		"an activity ends the sleep while the operator stops members": {[]build.Option{build.Replicas(1), build.AwakeFor(time.Hour),
			stopped(api.Stopping, func(s *api.Sleep) { s.PodsGoneAt = nil })}, time.Minute},
		"the owner of the next sleep cannot be paused": {[]build.Option{build.Replicas(2),
			stopped(api.Refused, func(s *api.Sleep) { s.Step, s.Reason, s.KeepMembers = api.AwaitsOwner, api.OwnerNotPausable, 3 })}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			set, now := web(append([]build.Option{build.ControlledBy("Database", "main"), build.IdleTimeout("1h"),
				build.LastActivity(10 * time.Hour)}, row.options...)...), build.Now
			for range 4 {
				p := idleTimeout(now, "web", set)
				set, now = afterPlan(set, p), now.Add(row.later)
			}
			for range 2 {
				p := Decide(on(set, replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")))
				if set = afterPlan(set, p); p.Reason == api.CleanupStarted {
					t.Errorf("its operator still starts members, and their claims are cleaned up: %s", p)
				}
			}
		})
	}
}

// TestClaimsAreCleanedUpAfterSlowStart: the operator has started all members late. Later it removes one.
func TestClaimsAreCleanedUpAfterSlowStart(t *testing.T) {
	late := build.Sleep(api.Failed, build.OwnerStops(), build.SleepEnded(api.NotReady, time.Hour), func(s *api.Sleep) { s.KeepMembers = 3 })
	set := web(build.Replicas(3), build.ReplicaCounts(3, 3), build.WithSleep(late))
	set = afterPlan(set, idleTimeout(build.Now, "web", set))
	set = build.With(set, build.Replicas(2), build.ReplicaCounts(2, 2), settledRecord(3))
	p := Decide(on(set, replica(0), replica(1), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")))
	if p.Reason != api.CleanupStarted {
		t.Errorf("the claim of the removed member stays: %s; %s", p, set.Annotations[api.SleepAnnotation])
	}
}

// TestTakeOverKeepsMembers: a set and its Scaler were replaced. scale-hooks takes the set over within a second, long before an autoscaler
// has acted. The members that the Scaler will start again are kept.
func TestTakeOverKeepsMembers(t *testing.T) {
	one, three := ptr.To[int32](1), ptr.To[int32](3)
	auto := &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 3, Max: 9}}
	for name, spec := range map[string]v1alpha1.ScalerSpec{
		"autoscaled by CPU, at least three, replicas 1":       {Replicas: one, Mode: auto},
		"autoscaled by CPU, at least three, without replicas": {Mode: auto},
		"autoscaled, at least three": {Mode: &v1alpha1.ScalerMode{
			HPA: &v1alpha1.Autoscaler{MinReplicas: three, MaxReplicas: 9}}},
		"autoscaled by CPU, from one to nine, without replicas": {Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 9}}},
		"autoscaled, from one to nine": {Mode: &v1alpha1.ScalerMode{
			HPA: &v1alpha1.Autoscaler{MinReplicas: one, MaxReplicas: 9}}},
		"fixed":        {Mode: &v1alpha1.ScalerMode{Fixed: three}},
		"with a count": {Replicas: three},
	} {
		t.Run(name, func(t *testing.T) {
			set, scaler := web(build.Replicas(1)), pilot(spec)
			var autoscalers []*autoscalingv2.HorizontalPodAutoscaler
			for range 20 {
				if p := decideWith(t, set, scaler, 3); p.Reason == api.CleanupStarted {
					t.Fatalf("a cleanup of members 1 and 2 starts: %s", set.Annotations[api.ScaleAnnotation])
				}
				p := scalehooks.Decide(scalehooks.Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set,
					Scalers: []*v1alpha1.Scaler{scaler}, Autoscalers: autoscalers})
				if set = afterPlan(set, p); *set.Spec.Replicas > set.Status.Replicas {
					set = build.With(set, build.ReplicaCounts(*set.Spec.Replicas, *set.Spec.Replicas))
				}
				for _, a := range p.Actions {
					if created, ok := a.Object.(*autoscalingv2.HorizontalPodAutoscaler); ok && a.Verb == plan.VerbCreate {
						autoscalers = append(autoscalers, created.DeepCopy())
					} else if a.Resource == plan.Scalers || a.Resource == plan.ScalerStatus {
						scaler = patched(scaler, a)
					}
				}
			}
		})
	}
}

// TestCleanupContinuesDuringPauseOfEmptySet: the user scaled a Scaler from 2 to 0, and pauses it while its members are cleaned up. The
// pause brings no member back.
func TestCleanupContinuesDuringPauseOfEmptySet(t *testing.T) {
	record := api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID, Attempt: 1,
		Phase: api.Succeeded, Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 2}
	set := web(build.Replicas(0), build.ReplicaCounts(0, 0), build.Annotation(api.ScaleAnnotation, record.Encode()), cleaning())
	scaler := pilot(v1alpha1.ScalerSpec{Replicas: ptr.To[int32](0), Paused: true})
	for range 3 {
		set = afterPlan(set, decideWith(t, set, scaler, 2))
	}
	if cleanup, _ := api.LoadCleanup(set); !cleanup.Active() {
		t.Errorf("the pause ends the cleanup, but the Scaler requests no member: %s", build.Words(cleanup))
	}
}

// TestCleanupStartsAfterPauseWithoutMembers: a pause has ended a cleanup, because members should have come back. None did.
func TestCleanupStartsAfterPauseWithoutMembers(t *testing.T) {
	set := web(build.Replicas(0), build.ReplicaCounts(0, 0), cleaning())
	in := on(set, usedClaim("data-web-0"), usedClaim("data-web-1"))
	in.Paused = true
	set = afterPlan(set, Decide(in))
	if cleanup, _ := api.LoadCleanup(set); cleanup.Active() {
		t.Fatalf("the cleanup continues: %s", build.Words(cleanup))
	}
	set = afterPlan(set, Decide(on(set, usedClaim("data-web-0"), usedClaim("data-web-1"))))
	if cleanup, _ := api.LoadCleanup(set); !cleanup.Active() {
		t.Errorf("after the pause, the claims stay: %s", build.Words(cleanup))
	}
}

// TestKeptMembersSurviveAResize: an operator has started 2 of 3 members after a sleep. Then a resize creates the set again, with a new UID,
// which restore gives to the claims, too.
func TestKeptMembersSurviveAResize(t *testing.T) {
	late := build.Sleep(api.Failed, build.OwnerStops(), func(s *api.Sleep) { s.KeepMembers, s.Set.UID = 3, "uid-before" })
	resized := build.Operation(api.Succeeded, func(r *api.Resize) {
		r.ReplaceSet, r.Attempt = true, 1
		r.Operation = api.OperationID("uid-before", r.Request, r.Attempt)
	})
	set := web(build.Replicas(2), build.ReplicaCounts(2, 2), build.ControlledBy("Database", "main"), build.Status(resized),
		build.Annotation(api.SleepAnnotation, late.Encode()))
	if r, err := api.LoadResize(set); err != nil || r == nil || !r.HasIDOf("uid-before") {
		t.Fatal(r, err)
	}
	for range 3 {
		p := Decide(on(set, replica(0), replica(1), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")))
		if set = afterPlan(set, p); p.Reason == api.CleanupStarted {
			t.Fatalf("the operator has not started member 2 yet, and its claim is cleaned up: %s", p)
		}
	}
}

// TestOperatorStartsMembersWithoutSleepAnnotation: an operator was stopped for a sleep, and removes the sleep's annotation when it writes
// the set again. It has started the first of three members. The record of the paused owner shows that the sleep continues.
func TestOperatorStartsMembersWithoutSleepAnnotation(t *testing.T) {
	for name, replicas := range map[string]int32{"it has started none": 0, "it has started the first": 1} {
		set := web(build.Replicas(replicas), build.ReplicaCounts(replicas, replicas), build.ControlledBy("Database", "main"))
		record := resources.MakeOwnerRecord(set, build.Sleep(api.Asleep, build.OwnerStops()), api.PausedOwner{Version: api.PauseVersion,
			APIVersion: "example.com/v1", Kind: "Database", Resource: "databases", Name: "main", UID: "uid-main", Stopped: true})
		record.UID, record.ResourceVersion = "uid-record", "9"
		objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")}
		if replicas > 0 {
			objects = append(objects, replica(0))
		}
		lists := read(objects...)
		lists["controllerrevisions"] = append(lists["controllerrevisions"], record)
		in := observed(t, lists)
		if p := Decide(in); p.Reason == api.CleanupStarted {
			t.Errorf("%s, and the claims of the others are cleaned up: %s", name, p)
		}
	}
}

// TestEndOfPauseWakesCleanupPod: a pause has ended a cleanup, and no member came back. Nothing of the set changes at the end of the pause.
func TestEndOfPauseWakesCleanupPod(t *testing.T) {
	set := web(build.Replicas(0), build.ReplicaCounts(0, 0), settledRecord(2))
	for range 2 {
		set = afterPlan(set, Decide(on(set, usedClaim("data-web-0"), usedClaim("data-web-1"))))
	}
	if r, _ := api.LoadCleanup(set); !r.Active() {
		t.Fatalf("no cleanup: %s", build.Words(r))
	}
	in := on(set, usedClaim("data-web-0"), usedClaim("data-web-1"))
	in.Paused = true
	set = afterPlan(set, Decide(in))
	if r, _ := api.LoadCleanup(set); r.Active() || r.Reason != api.SetPaused {
		t.Fatalf("the cleanup continues: %s", build.Words(r))
	}
	if p := Decide(on(set, usedClaim("data-web-0"), usedClaim("data-web-1"))); p.Reason != api.CleanupStarted {
		t.Fatalf("Decide would start it: %s", p)
	}
	for _, swept := range []bool{false, true} {
		found := cleanup.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: swept})
		if !slices.Contains(found, api.CleanupPod) {
			t.Errorf("swept %t: no event wakes cleanup-pod, and the claims stay", swept)
		}
	}
}

// TestStuckOwnerOfAResizeEndsNoCleanup: a resize has succeeded long ago, and its owner stays paused because pause-owner lost its rights.
// That neither stops a cleanup nor keeps a user from aborting it, also if the set has no members.
func TestStuckOwnerOfAResizeEndsNoCleanup(t *testing.T) {
	for _, replicas := range []int32{0, 1} {
		for name, options := range map[string][]build.Option{"aborted": {build.Annotation(api.AbortAnnotation, "now")}, "running": nil} {
			done := build.Operation(api.Succeeded)
			set := web(append(options, build.Replicas(replicas), build.ReplicaCounts(replicas, replicas),
				build.ControlledBy("Database", "main"), build.Status(done), cleaning())...)
			record := resources.MakeOwnerRecord(set, done, api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1",
				Kind: "Database", Resource: "databases", Name: "main", UID: "uid-main"})
			objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1")}
			if replicas > 0 {
				objects = append(objects, replica(0))
			}
			if p := Decide(observedBeside(t, record, objects...)); p.Reason == api.InProgress {
				t.Errorf("%d replicas, %s: the cleanup stands still, and the set stays busy: %s", replicas, name, p)
			}
		}
	}
}

// TestUserEndsAutoscaling: a Scaler was created with an autoscaler and without a count. Then the user wants one member, without an
// autoscaler.
func TestUserEndsAutoscaling(t *testing.T) {
	set := web(build.Replicas(1), build.ReplicaCounts(1, 1), settledRecord(3))
	scaler := pilot(v1alpha1.ScalerSpec{Mode: &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{Min: 1, Max: 9}}})
	var autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	for i := range 40 {
		if i == 20 {
			scaler.Spec.Mode, scaler.Spec.Replicas, autoscalers = nil, ptr.To[int32](1), nil
		}
		p := decideWith(t, set, scaler, 3)
		set = afterPlan(set, p)
		if p.Reason == api.CleanupStarted {
			return
		}
		p = scalehooks.Decide(scalehooks.Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set,
			Scalers: []*v1alpha1.Scaler{scaler}, Autoscalers: autoscalers})
		set = afterPlan(set, p)
		for _, a := range p.Actions {
			if created, ok := a.Object.(*autoscalingv2.HorizontalPodAutoscaler); ok && a.Verb == plan.VerbCreate {
				autoscalers = append(autoscalers, created.DeepCopy())
			} else if a.Resource == plan.Scalers || a.Resource == plan.ScalerStatus {
				scaler = patched(scaler, a)
			}
		}
	}
	t.Errorf("the claims of two removed members stay for good: %s", set.Annotations[api.ScaleAnnotation])
}
