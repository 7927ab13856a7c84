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
	check(t, map[string]row{
		"it begins": {in: reported(on(web(2, records(api.PreScaling)), pilot(byEvent))),
			want: `do HookRequested: patch statefulsets web {+scale} -> scale.hook.requested`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 1, asked 1 with 1 keys, due 5m0s"},
		"its function has time": {in: running(59 * time.Second),
			want: "wait HookRunning (its function was asked 1 times)"},
		"its function has not answered": {in: running(time.Minute),
			want: `do HookRequested: patch statefulsets web {+scale} -> scale.hook.requested`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 1, asked 2 with 2 keys, due 5m0s"},
		"it was asked again, and has time": {in: reported(on(web(2, records(api.PreScaling, asked(2, 119*time.Second))), pilot(byEvent))),
			want: "wait HookRunning (its function was asked 2 times)"},
		"it was asked often": {in: reported(on(web(2, records(api.PreScaling, asked(8, time.Hour))), pilot(byEvent))),
			want: `do HookRequested: patch statefulsets web {+scale} -> scale.hook.requested`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 1, asked 9 with 8 keys, due 5m0s"},
		"it is done": {in: answered(running(time.Second), done),
			want:   `do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"it has failed": {in: answered(running(time.Second), of(func(a *events.HookAnswer) { a.Failed, a.Message = true, "no space" })),
			want:   `do HookFailed: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Failing HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing True HookFailed"},
		"an answer with no key":      {in: answered(running(time.Second), of(func(a *events.HookAnswer) { a.Key = "" })), want: "wait HookRunning (its function was asked 1 times)"},
		"an answer with a wrong key": {in: answered(running(time.Second), of(func(a *events.HookAnswer) { a.Key = "key-2" })), want: "wait HookRunning (its function was asked 1 times)"},
		"an answer for another hook": {in: answered(running(time.Second), of(func(a *events.HookAnswer) { a.Hook = "post" })), want: "wait HookRunning (its function was asked 1 times)"},
		"an answer for another operation": {in: answered(running(time.Second), of(func(a *events.HookAnswer) { a.Operation = "before" })),
			want: "wait HookRunning (its function was asked 1 times)"},
		"an answer before the request": {in: answered(reported(on(web(2, records(api.PreScaling)), pilot(byEvent))), done),
			want: `do HookRequested: patch statefulsets web {+scale} -> scale.hook.requested`,
			next: "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 1, asked 1 with 1 keys, due 5m0s"},
		"nobody answers": {in: on(web(2, records(api.PreScaling, overdue, asked(2, time.Hour))), pilot(byEvent)),
			want:   `do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Failing DeadlineExceeded at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
	})
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
	check(t, map[string]row{
		"the set has no template": {in: on(web(3, quiet(3)), pilot(wants(2), cleansUp)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy False HookInvalid, Failed False HookInvalid, Progressing False HookInvalid"},
		"members are gone": {in: on(web(2, asks, records(api.Scaling, func(s *api.Scale) { s.Previous, s.Target = 3, 2 })), pilot(wants(2), cleansUp)),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 3 to 2 for uid-pilot, attempt 1, cleans up, due 10m0s",
			status: "postScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"a pause keeps the claims, and waits for no cleanup": {in: on(web(0, asks, records(api.Scaling, away)), pilot(pausing, cleansUp)),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 3 to 0 for uid-pilot, attempt 1, paused, due 10m0s",
			status: "postScaling 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"claims are left": {in: reported(left(on(web(2, asks, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2")),
			want: "wait HookRunning (1 claims are being cleaned up)"},
		"a cleanup runs": {in: reported(on(web(2, asks, cleaning, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp))),
			want: "wait HookRunning (0 claims are being cleaned up)"},
		"the cleanup has failed": {in: left(on(web(2, asks, failed(-30*time.Second), records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2"),
			want: `do HookFailed: patch statefulsets web {+scale}; event HookFailed "the cleanup of 1 claims has failed: the pod failed. Mend that, then: kubectl annotate -n shop scaler pilot drydock.dev/retry="; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next: "Failed HookFailed at PostScaling, 3 to 2 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at postScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, " +
				"Failed 3 to 2"},
		"a cleanup failed before": {in: reported(left(on(web(2, asks, failed(-time.Hour), records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)), "data-web-2")),
			want: "wait HookRunning (1 claims are being cleaned up)"},
		"no claim is left": {in: on(web(2, asks, records(api.PostScaling, waiting)), pilot(wants(2), cleansUp)),
			want:   `do ScalingCompleted: patch statefulsets web {+scale}; event ScalingCompleted "scaled from 3 to 2"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> scale.completed`,
			next:   "Succeeded ScalingCompleted, 3 to 2 for uid-pilot, attempt 1, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate, Succeeded 3 to 2"},
	})
}
