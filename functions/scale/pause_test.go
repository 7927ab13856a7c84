package scale

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

var (
	pausedScaler    = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })
	resumed         = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = false })
	withCleanupHook = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	// withPreHook has a pre hook, and no failure hook.
	withPreHook = editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks.Pre = &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
	})
)

// pausedAtZero changes the record to a pause: a scaling from 3 to 0.
func pausedAtZero(s *api.Scale) { s.Previous, s.Target, s.Paused = 3, 0, true }

// startingAfterPause changes the record to a scale-up from zero after a pause.
func startingAfterPause(s *api.Scale) { s.Previous, s.Target, s.Paused = 0, 3, true }

// stopOfPause is the Stop of the scaling build.ID, which has stopped 3 pods.
func stopOfPause(options ...func(*api.Stop)) *api.Stop {
	return build.Stop(append([]func(*api.Stop){build.StoppedByScaler(build.ID)}, options...)...)
}

// pausedSet returns the set whose 3 pods a paused Scaler has stopped. It has so many replicas now, and a record with these options.
func pausedSet(count int32, phase api.Phase, options ...func(*api.Scale)) *appsv1.StatefulSet {
	return web(count, build.WithStop(stopOfPause()), withRecord(phase, options...))
}

// setAside gives the set the Stop of a pause that keeps the user's retention policy Delete.
func setAside(options ...func(*api.Stop)) build.Option {
	return func(o metav1.Object) {
		build.WhenScaled(retains)(o)
		build.WithStop(stopOfPause(append(options, build.FormerWhenScaled(deletes))...))(o)
	}
}

const (
	deletes = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	retains = statefulset.Retain
)

func TestPause(t *testing.T) {
	ended, withPods := withEndedScaling(3), build.ReplicaCounts(3, 3)
	record := withRecord(api.Succeeded, pausedAtZero)
	started := build.WithStop(stopOfPause(build.StartedFor(time.Minute)))
	check(t,
		row{"it begins", observed(web(3, ended), pilot(pausedScaler))},
		row{"the Scaler has no count yet", observed(web(3, ended), pilot(pausedScaler, withoutCount))},
		row{"the hook has run", observed(web(3, withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler, withHooks),
			hookJob("pre", completed))},
		row{"the hook has run, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler, withHooks), hookJob("pre", completed))},
		row{"the set is paused", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler))},
		row{"the set is paused, and its retention policy is set aside", observed(web(0, setAside(), record), pilot(pausedScaler))},
		row{"the Scaler loses its count", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler, withoutCount))},
		row{"another client starts a member", observed(pausedSet(1, api.Succeeded, pausedAtZero), pilot(pausedScaler))},
		row{"another client starts a member, policy adopt", observed(pausedSet(1, api.Succeeded, pausedAtZero),
			pilot(pausedScaler, withAdoptPolicy))},
		row{"another client starts members while the pods end", observed(pausedSet(3, api.Scaling, pausedAtZero), pilot(pausedScaler))},
		row{"another client starts members, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			build.WithStop(stopOfPause()), record), pilot(pausedScaler))},
		row{"another client starts members while the pods end, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			build.WithStop(stopOfPause()), withRecord(api.Scaling, pausedAtZero)), pilot(pausedScaler))},
		row{"a user writes another retention policy", observed(web(0, setAside(), build.WhenScaled(deletes), record), pilot(pausedScaler))},
		row{"it ends", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot())},
		row{"it ends, and the scale-up has no hook left to run", observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot())},
		row{"it has ended, and the scale-up goes on", observed(web(3, started, withRecord(api.Scaling)), pilot())},
		row{"it has ended, and the pods run", observed(web(3, started, ended), pilot())},
		row{"it has ended, the pods run, and the retention policy is set aside", observed(web(3,
			setAside(build.StartedFor(time.Minute)), ended), pilot())},
		row{"it ends, and the Scaler requests no members", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(wants(0)))},
		row{"it has ended without members, and the pods end", observed(web(0, withPods,
			setAside(build.StartedFor(time.Minute)), record), pilot(wants(0)))},
		row{"it has ended without members", observed(web(0, setAside(build.StartedFor(time.Minute)), record), pilot(wants(0)))},
		row{"it ends, and the Scaler with a pre hook requests no members", observed(pausedSet(0, api.Succeeded, pausedAtZero),
			resources.MakeStopRecord(web(0), stopOfPause()), pilot(wants(0), withPreHook))},
		row{"the Scaler is deleted during the pause", observed(pausedSet(0, api.Succeeded, pausedAtZero))},
		row{"the Scaler was deleted during the pause", observed(web(0, build.WithStop(stopOfPause())))},
		row{"the Scaler was deleted, and the set has members again", observed(web(2, build.WithStop(stopOfPause())))},
		row{"another Scaler takes over the set", observed(pausedSet(0, api.Succeeded, pausedAtZero, ofScaler("uid-before")),
			pilot(withoutCount))},
	)
}

// TestRecordStaysPausedUntilCountRises: while the record is paused, the pods are expected back.
func TestRecordStaysPausedUntilCountRises(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"the pause ends": {observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(withHooks)), true},
		"the pre hook has failed": {observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot(withPreHook),
			hookJob("pre", failed)), true},
		"the pre hook is retried": {observed(pausedSet(0, api.Failed, failedAt(api.PreScaling), startingAfterPause),
			pilot(withRetry)), true},
		"other clients have started members": {observed(pausedSet(1, api.Failed, failedAt(api.PreScaling), startingAfterPause),
			pilot(withRetry)), true},
		"the count rises": {observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot()), false},
		"another client scales a set to zero that should be paused": {observed(web(0, withEndedScaling(3)), pilot(pausedScaler)), true},
		"the members run again":                              {observed(web(3, withRecord(api.Succeeded, pausedAtZero)), pilot()), false},
		"the record is lost while members start again":       {observed(web(0), pilot()), true},
		"the record is lost, and zero members are requested": {observed(web(0), pilot(wants(0))), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.in)
			if record := build.StoredScale(p); record == nil || record.Paused != c.want {
				t.Errorf("%s\nstores %s, want a record with paused = %t", p, build.Words(record), c.want)
			}
		})
	}
}

// TestScalerDeletedDuringPauseLeavesZero: an active record would block all other operations of the set forever. A Stop would start the pods
// with the next visit, although the set keeps its count.
func TestScalerDeletedDuringPauseLeavesZero(t *testing.T) {
	for _, phase := range []api.Phase{api.Scaling, api.Succeeded, api.Failed} {
		in := observed(pausedSet(0, phase, pausedAtZero))
		checkConverges(t, in)
		end, _ := playToEnd(t, in)
		_, recorded := end.Set.Annotations[api.ScaleAnnotation]
		_, stopped := end.Set.Annotations[api.StopAnnotation]
		if recorded || stopped || len(end.Records) > 0 || *end.Set.Spec.Replicas != 0 {
			t.Errorf("%s: %s", phase, toJSON(end.Set))
		}
	}
}

// TestFormerCountIsSaidBeforeStopEnds: only the Event says why the set stays at zero and how many pods it had. If the process dies after
// the Stop has ended, nothing writes the Event any more.
func TestFormerCountIsSaidBeforeStopEnds(t *testing.T) {
	p := Decide(observed(web(0, build.WithStop(stopOfPause()))))
	said := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvent })
	ends := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbPatch })
	if said < 0 || ends < said {
		t.Error(p)
	}
}

// TestStopAtZeroStaysWithItsRecord: a webhook rejects the deletion of a stop's record, and a set at zero gets its Stop back from that
// record. If the Stop went before its record, scale would write both for ever.
func TestStopAtZeroStaysWithItsRecord(t *testing.T) {
	for name, in := range map[string]Input{
		"its Scaler was deleted":   observed(pausedSet(0, api.Succeeded, pausedAtZero)),
		"its Scaler wants no pods": observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(wants(0))),
	} {
		in.Set = build.With(in.Set, build.IdleTimeout("1h"))
		in.Records = []*appsv1.ControllerRevision{stored(resources.MakeStopRecord(in.Set, api.LoadStop(in.Set)))}
		for _, kept := range []bool{true, false} {
			in.RecordsKept = kept
			checkConverges(t, in)
			end, _ := playToEnd(t, in)
			if api.LoadStop(end.Set).Pending() != kept || len(end.Records) > 0 != kept {
				t.Errorf("%s, the record is kept: %t: %d records, %s", name, kept, len(end.Records), toJSON(end.Set))
			}
		}
	}
}

// TestEndOfFailedPauseStartsMembersAgain: nobody can request a retry for a visit.
func TestEndOfFailedPauseStartsMembersAgain(t *testing.T) {
	for _, at := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		live := map[api.Phase]int32{api.PreScaling: 2}[at]
		p := Decide(observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)), pilot()))
		if record := build.StoredScale(p); record == nil || record.Phase != api.PreScaling || record.Target != 3 {
			t.Errorf("failed at %s: %s, want a scaling to 3", at, p)
		}
		if p := Decide(withReportedStatus(observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)),
			pilot(pausedScaler)))); p.Kind == plan.KindDo {
			t.Errorf("failed at %s and still paused: %s, want nothing without a retry", at, p)
		}
	}
}

// TestRetryOfFailedPauseKeepsClaims: after a pause has failed, kubectl replace with the original manifest removes spec.paused and
// spec.replicas of the Scaler. A retry then must not become a scale-down to zero, after which cleanup-pod deletes all claims.
func TestRetryOfFailedPauseKeepsClaims(t *testing.T) {
	for _, at := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		for name, options := range map[string][]build.Option{"without a retry": {withoutCount}, "with a retry": {withoutCount, withRetry}} {
			live := map[api.Phase]int32{api.PreScaling: 3}[at]
			in, _ := playToEnd(t, observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)), pilot(options...)))
			if n := statefulset.Replicas(in.Set); n != 3 {
				t.Errorf("failed at %s, %s: the set has %d replicas, want 3", at, name, n)
			}
		}
	}
}

// TestMembersRemovedDuringPauseAreDrained: the pre hook of a pause is told that the members come back, so it does not drain them.
func TestMembersRemovedDuringPauseAreDrained(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"the count is lowered during the pause":          pausedSet(0, api.Succeeded, pausedAtZero),
		"another client has started a member":            pausedSet(1, api.Succeeded, pausedAtZero),
		"the pause failed after the members had ended":   pausedSet(0, api.Failed, failedAt(api.PostScaling), pausedAtZero),
		"the members could not be started":               pausedSet(0, api.Failed, failedAt(api.PreScaling), startingAfterPause),
		"another client has started a member after that": pausedSet(1, api.Failed, failedAt(api.PreScaling), startingAfterPause),
	} {
		t.Run(name, func(t *testing.T) {
			in, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(1), withRetry)))
			if n := statefulset.Replicas(in.Set); n != 1 {
				t.Errorf("the set has %d replicas, want 1", n)
			}
			if !slices.ContainsFunc(hooks, drained("1,2")) {
				t.Errorf("no hook was told that members 1 and 2 are removed: %v", hooks)
			}
		})
	}
}

// drained reports whether a hook was told that these members are removed for good.
func drained(members string) func(env map[string]string) bool {
	return func(env map[string]string) bool {
		return env["DRYDOCK_REMOVED"] == members && env["DRYDOCK_PAUSED"] == "false"
	}
}

// TestAllMembersAreDrainedIfPauseEndsAtZero: either all members are drained, or the record stays paused. Otherwise the ledger might order
// the removal of all members. The user ends the pause and requests no members: after another client has started one member of three, or as
// a retry of a pause that failed when the members had ended.
func TestAllMembersAreDrainedIfPauseEndsAtZero(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"one member was started":         pausedSet(1, api.Succeeded, pausedAtZero),
		"the members ended too late":     pausedSet(0, api.Failed, failedAt(api.Scaling), pausedAtZero),
		"the hook post of a pause fails": pausedSet(0, api.Failed, failedAt(api.PostScaling), pausedAtZero),
	} {
		end, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(0), withRetry)))
		if record, err := api.LoadScale(end.Set); err != nil || !record.Paused && !slices.ContainsFunc(hooks, drained("0,1,2")) {
			t.Errorf("%s: %s, hooks %v, %v", name, build.Words(record), hooks, err)
		}
	}
}

// TestPauseDoesNotWaitForCleanupHook: the claims of a paused set are kept, so the wait would never end.
func TestPauseDoesNotWaitForCleanupHook(t *testing.T) {
	in := observed(pausedSet(0, api.PostScaling, pausedAtZero), pilot(pausedScaler, withCleanupHook))
	if p := Decide(in); p.Reason != api.ScalingCompleted {
		t.Errorf("%s, want that the scaling is completed", p)
	}
}

// TestPauseKeepsClaims: whatever a user writes during a pause, no write to zero replicas leaves a retention policy that deletes claims. The
// user's policy counts again when the pods are back.
// Invariants: I1.
func TestPauseKeepsClaims(t *testing.T) {
	deleting := build.WhenScaled(deletes)
	for name, in := range map[string]Input{
		"the policy was Delete before the pause": observed(web(3, deleting, withEndedScaling(3)), pilot(pausedScaler)),
		"a manifest starts the pods and writes Delete": observed(web(3, deleting, build.WithStop(stopOfPause()),
			withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler)),
		"a manifest does so while the pods end": observed(web(3, deleting, build.WithStop(stopOfPause()),
			withRecord(api.Scaling, pausedAtZero)), pilot(pausedScaler)),
		"a manifest does so, and the policy was set aside": observed(web(3, setAside(), deleting,
			withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler)),
	} {
		t.Run(name, func(t *testing.T) {
			end, _ := playToEnd(t, in)
			if n, policy := statefulset.Replicas(end.Set), statefulset.WhenScaled(end.Set); n != 0 || policy != retains {
				t.Errorf("paused with %d replicas and the policy %s", n, policy)
			}
			end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
			end, _ = playToEnd(t, end)
			if n, policy := statefulset.Replicas(end.Set), statefulset.WhenScaled(end.Set); n != 3 || policy != deletes {
				t.Errorf("after the pause, it has %d replicas and the policy %s", n, policy)
			}
		})
	}
}

// TestPauseSaysSoInItsCondition: Progressing says what the members wait for.
func TestPauseSaysSoInItsCondition(t *testing.T) {
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	for name, row := range map[string]struct {
		in   Input
		want api.Reason
	}{
		"paused": {observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler)), api.SetPaused},
		"asleep": {observed(web(0, asleep, build.WithStop(build.Stop()), withRecord(api.Succeeded, pausedAtZero)), pilot()),
			api.StaysAsleep},
		"paused and asleep": {observed(web(0, asleep, build.WithStop(build.Stop()), withRecord(api.Succeeded, pausedAtZero)),
			pilot(pausedScaler)), api.StaysAsleep},
		"neither": {observed(web(3, withEndedScaling(3)), pilot()), api.UpToDate},
	} {
		status := reportedStatus(Decide(row.in), "pilot")
		if status == nil {
			t.Fatalf("%s: no status", name)
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing); c == nil || c.Reason != string(row.want) ||
			c.Status != "False" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
