package scale

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// withEventHooks gives the Scaler three hooks that run in a user's function.
var withEventHooks = editScaler(func(s *v1alpha1.Scaler) {
	hook := &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}}
	s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: hook, Post: hook, OnFailure: hook}
})

// withRequests adds hook requests to the record, the latest one ago before now. Their keys are key-1, key-2 and so on.
func withRequests(times int, ago time.Duration) func(*api.Scale) {
	return func(s *api.Scale) {
		s.HookRequests = &api.HookRequests{Times: times, Last: metav1.NewTime(build.Now.Add(-ago))}
		for i := range times {
			s.HookRequests.Keys = append(s.HookRequests.Keys, hashOf("key-"+string(rune('1'+i))))
		}
	}
}

func withAnswer(in Input, answer events.HookAnswer) Input {
	in.Answer = &answer
	return in
}

func TestEventHook(t *testing.T) {
	running := func(ago time.Duration) Input {
		return withReportedStatus(observed(web(2, withRecord(api.PreScaling, withRequests(1, ago))), pilot(withEventHooks)))
	}
	done := events.HookAnswer{Operation: build.ID, Hook: "pre", Key: "key-1"}
	changed := func(change func(*events.HookAnswer)) events.HookAnswer {
		a := done
		change(&a)
		return a
	}
	check(t,
		row{"it begins", withReportedStatus(observed(web(2, withRecord(api.PreScaling)), pilot(withEventHooks)))},
		row{"the request is younger than a minute", running(59 * time.Second)},
		row{"the request is sent again after a minute", running(time.Minute)},
		row{"the second request has time", withReportedStatus(observed(web(2, withRecord(api.PreScaling,
			withRequests(2, 119*time.Second))), pilot(withEventHooks)))},
		row{"only the latest keys are stored", withReportedStatus(observed(web(2, withRecord(api.PreScaling,
			withRequests(8, time.Hour))), pilot(withEventHooks)))},
		row{"the function has succeeded", withAnswer(running(time.Second), done)},
		row{"the function has failed", withAnswer(running(time.Second),
			changed(func(a *events.HookAnswer) { a.Failed, a.Message = true, "no space" }))},
		row{"an answer with no key", withAnswer(running(time.Second), changed(func(a *events.HookAnswer) { a.Key = "" }))},
		row{"an answer with a wrong key", withAnswer(running(time.Second), changed(func(a *events.HookAnswer) { a.Key = "key-2" }))},
		row{"an answer for another hook", withAnswer(running(time.Second), changed(func(a *events.HookAnswer) { a.Hook = "post" }))},
		row{"an answer for another operation", withAnswer(running(time.Second),
			changed(func(a *events.HookAnswer) { a.Operation = "before" }))},
		row{"an answer precedes the request", withAnswer(withReportedStatus(observed(web(2, withRecord(api.PreScaling)),
			pilot(withEventHooks))), done)},
		row{"no answer arrives before the deadline", observed(web(2, withRecord(api.PreScaling, overdue, withRequests(2, time.Hour))),
			pilot(withEventHooks))},
	)
}

// TestHookRequestCarriesFactsAndSecretKey: the record stores only the hash of the key.
func TestHookRequestCarriesFactsAndSecretKey(t *testing.T) {
	in := withReportedStatus(observed(web(2, withRecord(api.PreScaling)), pilot(withEventHooks)))
	in.Key = "secret"
	p := Decide(in)
	want := events.HookRequest{HookFacts: api.HookFacts{Operation: build.ID, Hook: "pre", Direction: "up", Namespace: "shop",
		Set: "web", Scaler: "pilot",
		Current: 2, Desired: 3, Added: []int{2}, Removed: []int{}}, Key: "secret"}
	if got := toJSON(p.Data); got != toJSON(want) {
		t.Errorf("the request is\n%s\nwant\n%s", got, toJSON(want))
	}
	record := build.StoredScale(p)
	if record.HookRequests.Keys[0] != hashOf("secret") || len(p.Actions) != 1 || p.Part != "pre/1" {
		t.Errorf("%s stores %+v, part %q", p, record.HookRequests, p.Part)
	}
}

// TestCleanupHook: a scaling waits until the claims of the removed members are deleted.
func TestCleanupHook(t *testing.T) {
	cleansUp := editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	waiting := func(s *api.Scale) { s.Previous, s.Target, s.CleansUp = 3, 2, true }
	counts := func(l api.Ledger) build.Option {
		return build.Edit(func(set *appsv1.StatefulSet) {
			l.Set, l.Generation = api.SetRef{Name: set.Name, UID: set.UID}, set.Generation
			build.Template("data", "1Gi", "fixed")(set)
			build.Annotation(api.CleanupTemplateAnnotation, "{}")(set)
			build.Annotation(api.LedgerAnnotation, l.Encode())(set)
		})
	}
	asks := counts(api.Ledger{Count: 2, Complete: true, Orders: 1})
	ordered := counts(api.Ledger{Count: 3, Complete: true, Orders: 1, Removing: &api.Removal{Span: api.Span{Start: 2, End: 3}, Order: 1}})
	failed := func(started time.Duration) build.Option {
		return build.Annotation(api.CleanupAnnotation,
			(&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "c0ffee012345",
				Kind: api.KindCleanup, Phase: api.Failed, Request: "x", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"},
				Message: "the pod failed",
				Started: metav1.NewTime(build.Now.Add(started))}}).Encode())
	}
	check(t,
		row{"the set has no cleanup template", observed(web(3, withEndedScaling(3)), pilot(wants(2), cleansUp))},
		row{"the removed members are gone", observed(web(2, asks, withRecord(api.Scaling,
			func(s *api.Scale) { s.Previous, s.Target = 3, 2 })), pilot(wants(2), cleansUp))},
		row{"a pause keeps the claims and waits for no cleanup", observed(
			web(0, counts(api.Ledger{Count: 3}), withRecord(api.Scaling, pausedAtZero)), pilot(pausedScaler, cleansUp))},
		row{"claims remain", withReportedStatus(observed(web(2, ordered, withRecord(api.PostScaling, waiting)),
			pilot(wants(2), cleansUp)))},
		row{"a cleanup is running", withReportedStatus(observed(web(2, asks, withRunningCleanup, withRecord(api.PostScaling, waiting)),
			pilot(wants(2), cleansUp)))},
		row{"the cleanup has failed", observed(web(2, ordered, failed(-30*time.Second), withRecord(api.PostScaling, waiting)),
			pilot(wants(2), cleansUp))},
		row{"a cleanup failed before this scaling " +
			"began", withReportedStatus(observed(web(2, ordered, failed(-time.Hour), withRecord(api.PostScaling, waiting)),
			pilot(wants(2), cleansUp)))},
		row{"all claims are deleted", observed(web(2, asks, withRecord(api.PostScaling, waiting)), pilot(wants(2), cleansUp))},
	)
}

// TestRecordedAnswerIsPrintable: terminals show the record, so a user's function must not control them.
func TestRecordedAnswerIsPrintable(t *testing.T) {
	const key = "key"
	in := observed(
		web(2, withRecord(api.PreScaling, func(s *api.Scale) { s.HookRequests = &api.HookRequests{Times: 1, Keys: []string{hashOf(key)}} })),
		pilot(editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}} })),
	)
	in.Answer = &events.HookAnswer{Operation: build.ID, Hook: preHook, Key: key, Failed: true, Message: "\x1b[2J\u202eno\nroom"}
	if record := build.StoredScale(Decide(in)); record == nil || strings.ContainsAny(record.Message, "\x1b\u202e\n") {
		t.Errorf("the record quotes %s", build.Words(record))
	}
}

// TestHookRequestOfAFastClockIsRepeated: a process with a clock thirty days ahead sent the first request, which was lost.
func TestHookRequestOfAFastClockIsRepeated(t *testing.T) {
	in := withReportedStatus(observed(web(2, withRecord(api.PreScaling, withRequests(1, -30*24*time.Hour))), pilot(withEventHooks)))
	if p := Decide(in); p.Announce != events.ScaleHookRequested {
		t.Errorf("the request is not repeated before its deadline: %s", p)
	}
}
