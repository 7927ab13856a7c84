package scalehooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// startingAfterPause changes the record to a scale-up from zero after a pause.
func startingAfterPause(s *api.Scale) { s.Previous, s.Target, s.Paused, s.PausedCount = 0, 3, true, 3 }

var (
	withCleanupHook = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	// withPreHook has a pre hook, and no failure hook.
	withPreHook = editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks.Pre = &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
	})
	withPreHookByEvent = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}} })
)

// TestRecordStaysPausedUntilCountRises: while the record is paused, the pods are expected back.
func TestRecordStaysPausedUntilCountRises(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"the pause ends": {observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(withHooks)), true},
		"the pre hook has failed": {observed(web(0, withRecord(api.PreScaling, startingAfterPause)), pilot(withPreHook),
			hookJob("pre", failed)), true},
		"the pre hook is retried": {observed(web(0, withRecord(api.Failed, failedAt(api.PreScaling), startingAfterPause)),
			pilot(withRetry)), true},
		"other clients have started members": {observed(web(1, withRecord(api.Failed, failedAt(api.PreScaling), startingAfterPause)),
			pilot(withRetry)), true},
		"the count rises": {observed(web(0, withRecord(api.PreScaling, startingAfterPause)), pilot()), false},
		"another client scales a set to zero that should be paused": {observed(web(0, withEndedScaling(3)), pilot(pausedScaler)), true},
		"the members run again":                              {observed(web(3, withRecord(api.Succeeded, pausedAtZero)), pilot()), false},
		"the record is lost while members start again":       {observed(web(0), pilot()), true},
		"the record is lost, and zero members are requested": {observed(web(0), pilot(wants(0))), false},
		"the Scaler is deleted while members start again": {observed(web(0,
			withRecord(api.PreScaling, startingAfterPause))), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.in)
			if record := build.StoredScale(p); record == nil || record.Paused != c.want {
				t.Errorf("%s\nstores %s, want a record with paused = %t", p, build.Words(record), c.want)
			}
		})
	}
}

// TestScalerDeletedDuringPauseEndsScaling: an active record would block all other operations of the set forever.
func TestScalerDeletedDuringPauseEndsScaling(t *testing.T) {
	in := observed(web(0, withRecord(api.Scaling, pausedAtZero)))
	record := build.StoredScale(Decide(in))
	if record == nil || record.Active() || !record.Paused || !record.Adopts {
		t.Fatalf("%s\nstores %s, want a record that has ended, is paused and adopts", Decide(in), build.Words(record))
	}
	checkConverges(t, in)
}

// TestEndOfFailedPauseStartsMembersAgain: idle-timeout wakes a set by the end of the pause, and cannot request a retry.
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
		"the count is lowered during the pause":          web(0, withRecord(api.Succeeded, pausedAtZero)),
		"another client has started a member":            web(1, withRecord(api.Succeeded, pausedAtZero)),
		"the pause failed after the members had ended":   web(0, withRecord(api.Failed, failedAt(api.PostScaling), pausedAtZero)),
		"the members could not be started":               web(0, withRecord(api.Failed, failedAt(api.PreScaling), startingAfterPause)),
		"another client has started a member after that": web(1, withRecord(api.Failed, failedAt(api.PreScaling), startingAfterPause)),
	} {
		t.Run(name, func(t *testing.T) {
			in, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(1), withRetry)))
			if n := statefulset.Replicas(in.Set); n != 1 {
				t.Errorf("the set has %d replicas, want 1", n)
			}
			drained := func(env map[string]string) bool {
				return env["DRYDOCK_REMOVED"] == "1,2" && env["DRYDOCK_PAUSED"] == "false"
			}
			if !slices.ContainsFunc(hooks, drained) {
				t.Errorf("no hook was told that members 1 and 2 are removed: %v", hooks)
			}
		})
	}
}

// TestPauseDoesNotWaitForCleanupHook: the claims of a paused set are kept, so the wait would never end.
func TestPauseDoesNotWaitForCleanupHook(t *testing.T) {
	in := observed(web(0, withRecord(api.PostScaling, pausedAtZero)), pilot(pausedScaler, withCleanupHook))
	if p := Decide(in); p.Reason != api.ScalingCompleted {
		t.Errorf("%s, want that the scaling is completed", p)
	}
}

// TestPauseThatWouldDeleteClaimsFailsInsteadOfWaiting: a mere report would keep the record active forever.
func TestPauseThatWouldDeleteClaimsFailsInsteadOfWaiting(t *testing.T) {
	p := Decide(observed(web(1, deletesClaims, withRecord(api.Scaling, pausedAtZero, overdue)), pilot(pausedScaler)))
	if record := build.StoredScale(p); record == nil || record.Phase != api.Failed || record.Reason != api.PauseDeletesClaims {
		t.Errorf("%s, want that the scaling fails", p)
	}
}

// TestManifestWithoutCountRestoresCountBeforePause: kubectl replace with the original manifest removes spec.replicas.
func TestManifestWithoutCountRestoresCountBeforePause(t *testing.T) {
	want := "do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 3}"
	if p := Decide(observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler, withoutCount))); p.String() != want {
		t.Errorf("got  %s\nwant %s", p, want)
	}
}

// TestRecordedAnswerIsPrintable: terminals show the record, so a user's function must not control them.
func TestRecordedAnswerIsPrintable(t *testing.T) {
	const key = "key"
	in := observed(
		web(2, withRecord(api.PreScaling, func(s *api.Scale) { s.HookRequests = &api.HookRequests{Times: 1, Keys: []string{hashOf(key)}} })),
		pilot(withPreHookByEvent),
	)
	in.Answer = &events.HookAnswer{Operation: build.ID, Hook: preHook, Key: key, Failed: true, Message: "\x1b[2J\u202eno\nroom"}
	if record := build.StoredScale(Decide(in)); record == nil || strings.ContainsAny(record.Message, "\x1b\u202e\n") {
		t.Errorf("the record quotes %s", build.Words(record))
	}
}

// TestSumOfHugeDeadlinesDoesNotOverflow: idle-timeout adds two deadlines.
func TestSumOfHugeDeadlinesDoesNotOverflow(t *testing.T) {
	huge := v1alpha1.Deadline("2562047h").Or(time.Minute)
	if sum := huge + huge; sum <= 0 {
		t.Errorf("two deadlines are %s", sum)
	}
}

// TestMembersAreDrainedAfterLostRecord: a manifest has removed all annotations of a paused set, and its Scaler takes it over again.
func TestMembersAreDrainedAfterLostRecord(t *testing.T) {
	in := observed(web(0), pilot(withPreHook, pausedScaler)) // requests 3
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	resumed := editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = false })
	in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(), wants(1), resumed)}
	end, hooks := playToEnd(t, in)
	drained := func(env map[string]string) bool {
		return env["DRYDOCK_REMOVED"] == "1,2" && env["DRYDOCK_PAUSED"] == "false"
	}
	if n := statefulset.Replicas(end.Set); n != 1 || !slices.ContainsFunc(hooks, drained) {
		t.Errorf("%d replicas, hooks %v", n, hooks)
	}
}

// TestAllMembersAreDrainedIfPauseEndsAtZero: either all members are drained, or the record stays paused. Otherwise cleanup-pod would delete
// all claims. The user ends the pause and requests no members: after another client has started one member of three, or as a retry of a
// pause that failed when the members had ended.
func TestAllMembersAreDrainedIfPauseEndsAtZero(t *testing.T) {
	drained := func(env map[string]string) bool {
		return env["DRYDOCK_REMOVED"] == "0,1,2" && env["DRYDOCK_PAUSED"] == "false"
	}
	for name, set := range map[string]*appsv1.StatefulSet{
		"one member was started":         web(1, withRecord(api.Succeeded, pausedAtZero)),
		"the members ended too late":     web(0, withRecord(api.Failed, failedAt(api.Scaling), pausedAtZero)),
		"the hook post of a pause fails": web(0, withRecord(api.Failed, failedAt(api.PostScaling), pausedAtZero)),
	} {
		end, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(0), withRetry)))
		if record, err := api.LoadScale(end.Set); err != nil || !record.Paused && !slices.ContainsFunc(hooks, drained) {
			t.Errorf("%s: %s, hooks %v, %v", name, build.Words(record), hooks, err)
		}
	}
}
