package scalehooks

import (
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestReplacedScalerKeepsClaimsOfSleepingSet: a Scaler was deleted and created again (another UID). Before scale-hooks noticed it,
// idle-timeout scaled the set to zero without the Scaler. If the hook of the wake-up fails, only the record protects the claims.
func TestReplacedScalerKeepsClaimsOfSleepingSet(t *testing.T) {
	in := observed(web(0, build.WithSleep(build.Sleep(api.Asleep)), withRecord(api.Succeeded, func(s *api.Scale) {
		s.Previous, s.Target, s.Reason = 3, 3, api.ScalerReady
	}, ofScaler("uid-gone"))), pilot(withPreHook))
	for range 3 {
		p := Decide(in)
		if record := storedRecord(p); record != nil {
			if !record.Paused || record.PausedCount != 3 {
				t.Errorf("%s stores %s", p, recordSummary(record))
			}
			return
		}
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
	}
	t.Error("no record was stored")
}

// TestNewScalerKeepsClaimsOfMembersThatItWants: a deployment tool deletes the Scaler of a set with three members and creates it again.
// Between the two, another client scales the set to one.
func TestNewScalerKeepsClaimsOfMembersThatItWants(t *testing.T) {
	claims := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "1Gi"), build.Claim("data-web-2", "1Gi")}
	wanted := func(in Input) int {
		return len(slices.DeleteFunc(cleanup.Ordinals(in.Set, claims, nil, 0), func(o cleanup.Ordinal) bool { return !o.Wanted }))
	}
	set := web(1, build.Template("data", "1Gi", "fixed"), withRecord(api.Succeeded, func(s *api.Scale) {
		s.Previous, s.Target, s.Reason = 3, 3, api.ScalerReady
	}, ofScaler("uid-gone")))
	in := observed(set, pilot(withInvalidHooks))
	for range 5 {
		for _, a := range Decide(in).Actions {
			in = in.afterAction(a)
		}
		if wanted(in) != 2 {
			t.Fatalf("%s: the claims of %d members are kept", recordSummary(operation.Of(in.Set).Scale), wanted(in))
		}
	}
	for count, kept := range map[int32]int{2: 1, 1: 0} { // the user wants fewer
		in.Scalers = []*v1alpha1.Scaler{pilot(withInvalidHooks, wants(count))}
		fewer := in
		for range 5 {
			for _, a := range Decide(fewer).Actions {
				fewer = fewer.afterAction(a)
			}
			if n := wanted(fewer); n != kept {
				t.Errorf("the Scaler wants %d, %s: the claims of %d members are kept", count, recordSummary(operation.Of(fewer.Set).Scale), n)
			}
		}
	}
}

// TestNewScalerRevertsScaleDownOfOthers: a Scaler is new for a set of five. The user lowers it to three, and another client scales the
// set to two.
func TestNewScalerRevertsScaleDownOfOthers(t *testing.T) {
	for name, option := range map[string]build.Option{"with a hook": withPreHook, "with an invalid hook": withInvalidHooks} {
		in := observed(web(2, withRecord(api.Succeeded, func(s *api.Scale) {
			s.Previous, s.Target, s.Reason = 5, 5, api.ScalerReady
		})), pilot(wants(3), option))
		if p := Decide(in); p.Reason != api.CountReverted {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// TestNewAdoptingScalerKeepsClaims: a Scaler that adopts the counts of others first applies its own count, three, to a set of one.
func TestNewAdoptingScalerKeepsClaims(t *testing.T) {
	in := observed(web(1, build.Template("data", "1Gi", "fixed"), withRecord(api.Succeeded, func(s *api.Scale) {
		s.Previous, s.Target, s.Reason = 3, 3, api.ScalerReady
	}, ofScaler("uid-gone"))), pilot(withInvalidHooks, withAdoptPolicy))
	for range 4 {
		for _, a := range Decide(in).Actions {
			in = in.afterAction(a)
		}
	}
	for _, o := range cleanup.Ordinals(in.Set, []*corev1.PersistentVolumeClaim{build.Claim("data-web-2", "1Gi")}, nil, 0) {
		if !o.Wanted {
			t.Errorf("the claim of member %d is not kept: %s", o.Number, recordSummary(operation.Of(in.Set).Scale))
		}
	}
}

// TestRecordIsRenewedAfterResize: a resize has created the set again. Until the record has the new UID, the admission policies let every
// client scale the set.
func TestRecordIsRenewedAfterResize(t *testing.T) {
	resize := build.Operation(api.Moving)
	resize.ReplaceSet, resize.Set.UID = true, "uid-again"
	resize.Operation = api.OperationID("uid-web", resize.Request, resize.Attempt)
	set := build.With(web(3, withRecord(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target = 3, 3 })),
		build.Annotation(api.StatusAnnotation, resize.Encode()), func(o metav1.Object) { o.SetUID("uid-again") })
	in := observed(set, pilot(wants(3)))
	p := Decide(in)
	in = in.afterAction(p.Actions[0])
	record := operation.Of(in.Set).Scale
	if record == nil || record.Set.UID != "uid-again" || record.Target != 3 || record.Phase != api.Succeeded {
		t.Errorf("%s stores %s", p, recordSummary(record))
	}
	resize.Operation = build.ID // of another set
	foreign := build.With(set, build.Annotation(api.StatusAnnotation, resize.Encode()))
	if record := operation.Of(foreign).Scale; record != nil {
		t.Errorf("the record of another set counts: %s", recordSummary(record))
	}
}

// TestCleanupHookWaitsOnlyForClaimsThatAreCleanedUp: the pod of a removed member never started, so its claim is not bound, and cleanup-pod
// keeps it.
func TestCleanupHookWaitsOnlyForClaimsThatAreCleanedUp(t *testing.T) {
	cleansUp := editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	used, pending := build.Claim("data-web-2", "1Gi", build.Annotation(api.ReplicaOfAnnotation, "uid-web")), build.Claim("data-web-3", "1Gi")
	pending.Status.Phase, pending.Spec.VolumeName = corev1.ClaimPending, ""
	lists := build.EmptyLists()
	lists["statefulsets"] = append(lists["statefulsets"], web(2, build.Template("data", "1Gi", "fast"),
		withRecord(api.PostScaling, func(s *api.Scale) { s.Previous, s.Target, s.CleansUp = 4, 2, true })))
	lists["scalers"] = append(lists["scalers"], pilot(wants(2), cleansUp))
	lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], used, pending)
	f := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler))
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || !slices.Equal(in.LeftoverClaims, []string{"data-web-2"}) {
		t.Errorf("waits for %v, %v", in.LeftoverClaims, err)
	}
}
