package scalehooks

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
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

// TestScalerWaitsWhileOperatorStopsSet: the set falls asleep by its operator's own stop. The Scaler is not paused, and must not start the
// members again.
func TestScalerWaitsWhileOperatorStopsSet(t *testing.T) {
	for _, phase := range []api.Phase{api.Stopping, api.Asleep} {
		stops := build.Sleep(phase, func(s *api.Sleep) { s.OwnerStops = true })
		p := Decide(observed(web(0, build.WithSleep(stops), withEndedScaling(3)), pilot(withPreHook)))
		for _, a := range p.Actions {
			for _, op := range a.Ops {
				if op.Path == replicasPath && op.Op != "test" {
					t.Errorf("%s: %s", phase, p)
				}
			}
		}
	}
}

// TestMalformedHookAnswerIsIgnored: anyone can send an answer. After an error, dead-letter would list it on the set and make an Event.
func TestMalformedHookAnswerIsIgnored(t *testing.T) {
	e := event.New()
	e.SetType(events.ScaleHookCompleted)
	e.SetSource("forged")
	e.SetID("1")
	for key, value := range map[string]string{"kind": "StatefulSet", "namespace": build.Namespace, "name": "web", "operation": "forged"} {
		e.SetExtension(key, value)
	}
	if err := e.SetData(event.ApplicationJSON, []byte("[1]")); err != nil {
		t.Fatal(err)
	}
	if reply, err := New(nil, api.Settings{}, slog.New(slog.DiscardHandler)).Handle(t.Context(), e); reply != nil || err != nil {
		t.Errorf("%v, %v", reply, err)
	}
}

// TestNewScalerKeepsClaimsOfMembersThatItWants: a deployment tool deletes the Scaler of a set with three members and creates it again.
// Between the two, another client scales the set to one.
func TestNewScalerKeepsClaimsOfMembersThatItWants(t *testing.T) {
	claims := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "1Gi"), build.Claim("data-web-2", "1Gi")}
	wanted := func(in Input) int {
		return len(slices.DeleteFunc(cleanup.Ordinals(in.Set, claims, nil), func(o cleanup.Ordinal) bool { return !o.Wanted }))
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
	in.Scalers = []*v1alpha1.Scaler{pilot(wants(1))} // the user wants fewer
	for range 5 {
		for _, a := range Decide(in).Actions {
			in = in.afterAction(a)
		}
	}
	if wanted(in) != 0 {
		t.Errorf("%s: the claims of %d members are kept", recordSummary(operation.Of(in.Set).Scale), wanted(in))
	}
}
