package scalehooks

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// byEvent has a function of the user's run all hooks.
var byEvent = edited(func(s *v1alpha1.Scaler) {
	hook := &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}}
	s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: hook, Post: hook, OnFailure: hook}
})

// asked is a record with that many requests, the latest so long ago. Their keys are key-1, key-2 and so on.
func asked(times int, ago time.Duration) func(*api.Scale) {
	return func(s *api.Scale) {
		s.Ask = &api.Ask{Times: times, Last: metav1.NewTime(build.Now.Add(-ago))}
		for i := range times {
			s.Ask.Keys = append(s.Ask.Keys, sumOf("key-"+string(rune('1'+i))))
		}
	}
}

func answered(in Input, answer events.HookAnswer) Input {
	in.Answer = &answer
	return in
}

func TestHookByEvent(t *testing.T) {
	running := func(ago time.Duration) Input {
		return reported(on(web(2, records(api.PreScaling, asked(1, ago))), pilot(byEvent)))
	}
	done := events.HookAnswer{Operation: build.ID, Hook: "pre", Key: "key-1"}
	of := func(change func(*events.HookAnswer)) events.HookAnswer {
		a := done
		change(&a)
		return a
	}
	check(t,
		row{"it begins", reported(on(web(2, records(api.PreScaling)), pilot(byEvent)))},
		row{"its function has time", running(59 * time.Second)},
		row{"its function has not answered", running(time.Minute)},
		row{"it was asked again, and has time", reported(on(web(2, records(api.PreScaling, asked(2, 119*time.Second))), pilot(byEvent)))},
		row{"it was asked often", reported(on(web(2, records(api.PreScaling, asked(8, time.Hour))), pilot(byEvent)))},
		row{"it is done", answered(running(time.Second), done)},
		row{"it has failed", answered(running(time.Second), of(func(a *events.HookAnswer) { a.Failed, a.Message = true, "no space" }))},
		row{"an answer with no key", answered(running(time.Second), of(func(a *events.HookAnswer) { a.Key = "" }))},
		row{"an answer with a wrong key", answered(running(time.Second), of(func(a *events.HookAnswer) { a.Key = "key-2" }))},
		row{"an answer for another hook", answered(running(time.Second), of(func(a *events.HookAnswer) { a.Hook = "post" }))},
		row{"an answer for another operation", answered(running(time.Second), of(func(a *events.HookAnswer) { a.Operation = "before" }))},
		row{"an answer before the request", answered(reported(on(web(2, records(api.PreScaling)), pilot(byEvent))), done)},
		row{"nobody answers", on(web(2, records(api.PreScaling, overdue, asked(2, time.Hour))), pilot(byEvent))},
	)
}

// TestRequestTellsWhatIsScaled, and has a key of which the record has the sum only.
func TestRequestTellsWhatIsScaled(t *testing.T) {
	in := reported(on(web(2, records(api.PreScaling)), pilot(byEvent)))
	in.Key = "secret"
	p := Decide(in)
	want := events.HookRequest{HookFacts: api.HookFacts{Operation: build.ID, Hook: "pre", Direction: "up", Namespace: "shop", Set: "web", Scaler: "pilot",
		Current: 2, Desired: 3, Added: []int{2}, Removed: []int{}}, Key: "secret"}
	if got := encode(p.Data); got != encode(want) {
		t.Errorf("the request is\n%s\nwant\n%s", got, encode(want))
	}
	record := stored(p)
	if record.Ask.Keys[0] != sumOf("secret") || len(p.Actions) != 1 || p.Part != "pre/1" {
		t.Errorf("%s stores %+v, part %q", p, record.Ask, p.Part)
	}
}

// TestCleanupAsAHook: a scaling waits until the claims of the members that it has removed are gone.
func TestCleanupAsAHook(t *testing.T) {
	cleansUp := edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	waiting := func(s *api.Scale) { s.Previous, s.Target, s.CleansUp = 3, 2, true }
	asks := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	left := func(in Input, claims ...string) Input {
		in.LeftBehind = claims
		return in
	}
	failed := func(started time.Duration) build.Option {
		return build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "c0ffee012345",
			Kind: api.KindCleanup, Phase: api.Failed, Request: "x", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}, Message: "the pod failed",
			Started: metav1.NewTime(build.Now.Add(started))}}).Encode())
	}
	check(t,
		row{"the set has no template", on(web(3, quiet(3)), pilot(wants(2), cleansUp))},
		row{"members are gone", on(web(2, asks, records(api.Scaling, func(s *api.Scale) { s.Previous, s.Target = 3, 2 })), pilot(wants(2), cleansUp))},
		row{"a pause keeps the claims, and waits for no cleanup", on(web(0, asks, records(api.Scaling, away)), pilot(pausing, cleansUp))},
		row{"claims are left", reported(left(on(web(2, asks, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2"))},
		row{"a cleanup runs", reported(on(web(2, asks, cleaning, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)))},
		row{"the cleanup has failed", left(on(web(2, asks, failed(-30*time.Second), records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2")},
		row{"a cleanup failed before", reported(left(on(web(2, asks, failed(-time.Hour), records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2"))},
		row{"no claim is left", on(web(2, asks, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp))},
	)
}
