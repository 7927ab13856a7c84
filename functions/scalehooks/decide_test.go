package scalehooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func TestSetThatIsNotScaled(t *testing.T) {
	check(t,
		row{"there is no set and no Scaler", on()},
		row{"there is no set", on(pilot())},
		row{"there is no set, it was told", reported(on(pilot()))},
		row{"there is no set, a hook runs", on(pilot(), hook("pre"))},
		row{"there is no set, a hook is ending", reported(on(pilot(), hook("pre", build.Deleting())))},
		row{"there is no set, the Scaler goes", on(pilot(build.Deleting()))},
		row{"the set is being deleted", on(web(2, build.Deleting()), pilot())},
		row{"the set is deleted during a scaling", on(web(2, build.Deleting(), records(api.PreScaling)), pilot(hooked), hook("pre"))},
		row{"the record cannot be read", on(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot())},
		row{"the record cannot be read, it is told", reported(on(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot()))},
		row{"the record cannot be read, no Scaler", on(web(2, build.Annotation(api.ScaleAnnotation, "{")))},
		row{"the record is another set's", on(web(2, build.UID("uid-other"), records(api.PreScaling)), pilot())},
		row{"there is no Scaler", on(web(2))},
		row{"the Scaler was deleted", on(web(2, quiet(2)))},
		row{"the Scaler is being deleted", on(web(2, quiet(2)), pilot(build.Deleting()))},
		row{"the Scaler was deleted, a hook runs", on(web(2, records(api.PreScaling)), hook("pre"))},
		row{"the Scaler was deleted while scaling", on(web(3, records(api.Scaling)))},
		row{"the Scaler was deleted after failing", on(web(2, records(api.Failed, gaveUp(api.PreScaling))))},
		row{"it is not opted in", on(web(2, optOut), pilot())},
		row{"it is not opted in, it was told", reported(on(web(2, optOut), pilot()))},
		row{"it is not opted in, and looked after", on(web(2, optOut, quiet(2)), pilot())},
		row{"it is not opted in any more", on(web(2, optOut, records(api.PreScaling)), pilot(hooked), hook("pre"))},
		row{"it is not any more, and members start", on(web(3, optOut, records(api.Scaling)), pilot())},
		row{"it is not any more, and it fails", on(web(2, optOut, records(api.Failing, gaveUp(api.PreScaling))), pilot(hooked), hook("onFailure"))},
		row{"it was not any more, and a hook is left", on(web(2, optOut, records(api.Failed, gaveUp(api.PreScaling))), pilot(hooked), hook("pre"))},
		row{"a resize runs", on(web(2, build.Status(build.Operation(api.Moving)), quiet(2)), pilot())},
		row{"a resize runs, no record", on(web(2, build.Status(build.Operation(api.Moving))), pilot())},
		row{"a resize runs, it is told", reported(on(web(2, build.Status(build.Operation(api.Moving)), quiet(2)), pilot()))},
		row{"a resize cannot be read", on(web(2, build.Annotation(api.StatusAnnotation, "{"), quiet(2)), pilot())},
		row{"it sleeps, and had no Scaler before", on(web(0, build.WithSleep(build.Sleep(api.Asleep))), pilot(wants(2)))},
		row{"it sleeps by the Scaler", on(web(0, build.WithSleep(build.Sleep(api.Asleep)), records(api.Succeeded, away)), pilot(wants(2), pausing))},
		row{"a cleanup runs", on(web(2, cleaning, quiet(2)), pilot())},
		row{"a resize ran before", on(web(2, build.Status(build.Operation(api.Succeeded)), quiet(2)), pilot())},
		row{"a resize runs, and somebody retries", on(web(2, build.Status(build.Operation(api.Moving)), records(api.Failed, gaveUp(api.PreScaling))), pilot(retry))},
	)
}

// cleaning is the document of a cleanup that runs.
var cleaning = build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "c0ffee012345",
	Kind: api.KindCleanup, Phase: api.Cleaning, Request: "x", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"},
	Started: metav1.NewTime(build.Now)}}).Encode())

func TestFirstLook(t *testing.T) {
	known := edited(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-before"} })
	same := edited(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-web"} })
	check(t,
		row{"the count differs", on(web(2), pilot())},
		row{"the count is the same", on(web(3), pilot())},
		row{"the Scaler has no count", on(web(2), pilot(wishless))},
		row{"the set was replaced", on(web(2), pilot(known))},
		row{"the record was removed", on(web(2), pilot(same))},
		row{"another Scaler had it", on(web(2, records(api.Succeeded, of("uid-gone"))), pilot())},
		row{"another Scaler failed", on(web(2, records(api.Failed, gaveUp(api.PreScaling), of("uid-gone"))), pilot())},
		row{"another Scaler's scaling runs", on(web(2, records(api.PreScaling, of("uid-gone"))), pilot(), hook("pre"))},
		row{"another Scaler's scaling fails", on(web(2, records(api.Failing, gaveUp(api.PreScaling), of("uid-gone"))), pilot())},
		row{"a retry comes with the creation", on(web(2), pilot(retry))},
	)
}

func TestRest(t *testing.T) {
	check(t,
		row{"the count is the one that is wanted", on(web(3, quiet(3)), pilot())},
		row{"it is told", reported(on(web(3, quiet(3)), pilot()))},
		row{"a scaling has ended", on(web(3, records(api.Succeeded)), pilot())},
		row{"a scaling has ended, no history", on(web(3, records(api.Succeeded)), pilot(edited(noHistory)))},
		row{"a scaling has ended, and it is told", reported(on(web(3, records(api.Succeeded)), pilot()))},
		row{"members come and go", on(web(3, build.Counting(1, 1), quiet(3)), pilot())},
		row{"spec.replicas is missing", on(web(2, quiet(2)), pilot(wishless))},
		row{"spec.replicas is missing, the set is 0", on(web(0, quiet(0)), pilot(wishless))},
		row{"a stranger has scaled", on(web(5, quiet(3)), pilot())},
		row{"a stranger has scaled to none", on(web(0, quiet(3)), pilot())},
		row{"a stranger has scaled, adopt", on(web(5, quiet(3)), pilot(adopting))},
		row{"a stranger has scaled to the wish", on(web(3, quiet(2)), pilot())},
		row{"the same, adopt", on(web(3, quiet(2)), pilot(adopting))},
		row{"a stranger, and another wish", on(web(5, quiet(2)), pilot())},
		row{"begin", on(web(2, quiet(2)), pilot())},
		row{"begin with hooks", on(web(2, quiet(2)), pilot(hooked))},
		row{"begin to scale down", on(web(3, quiet(3)), pilot(wants(1)))},
		row{"begin to scale to none", on(web(3, quiet(3)), pilot(wants(0)))},
		row{"a template cannot be read", on(web(2, quiet(2)), pilot(unread))},
		row{"a template cannot be read, it is told", reported(on(web(2, quiet(2)), pilot(unread)))},
		row{"a template, and nothing to do", on(web(3, quiet(3)), pilot(unread))},
		row{"a retry, where nothing has failed", on(web(3, quiet(3)), pilot(retry))},
		row{"a retry by event, nothing has failed", retried(reported(on(web(3, quiet(3)), pilot())))},
		row{"a hook of before is left", on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", complete))},
		row{"a hook of before is ending", reported(on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", build.Deleting())))},
		row{"a write was refused before", rejected(on(web(2, quiet(2)), pilot()))},
	)
}

func noHistory(s *v1alpha1.Scaler) {
	none := int32(0)
	s.Spec.HistoryLimit = &none
}

func TestBeforeTheChange(t *testing.T) {
	started := records(api.PreScaling)
	late := records(api.PreScaling, overdue)
	check(t,
		row{"there is no hook", on(web(2, started), pilot())},
		row{"there is no hook, and it is late", on(web(2, late), pilot())},
		row{"the hook is missing", on(web(2, started), pilot(hooked))},
		row{"the hook is missing, and it is late", on(web(2, late), pilot(hooked))},
		row{"the hook runs", on(web(2, started), pilot(hooked), hook("pre"))},
		row{"the hook runs, it is told", reported(on(web(2, started), pilot(hooked), hook("pre")))},
		row{"the hook is complete", on(web(2, started), pilot(hooked), hook("pre", complete))},
		row{"the hook is complete, and it is late", on(web(2, late), pilot(hooked), hook("pre", complete))},
		row{"the hook has failed", on(web(2, started), pilot(hooked), hook("pre", failed))},
		row{"the hook is overdue", on(web(2, late), pilot(hooked), hook("pre"))},
		row{"the hook is being deleted", reported(on(web(2, started), pilot(hooked), hook("pre", build.Deleting())))},
		row{"it was complete, and is being deleted", reported(on(web(2, started), pilot(hooked), hook("pre", complete, build.Deleting())))},
		row{"it is being deleted, and overdue", on(web(2, late), pilot(hooked), hook("pre", build.Deleting()))},
		row{"the template cannot be read", on(web(2, started), pilot(unread))},
		row{"the same, and the hook is complete", on(web(2, started), pilot(unread), hook("pre", complete))},
		row{"the hook was taken out while it runs", reported(on(web(2, started), pilot(), hook("pre")))},
		row{"the hook is of another operation", on(web(2, started), pilot(hooked), hook("pre", another))},
		row{"the hook after it is there", on(web(2, started), pilot(hooked), hook("post"))},
		row{"a stranger scales", on(web(5, started), pilot(hooked), hook("pre"))},
		row{"a stranger scales to the target", on(web(3, started), pilot(hooked), hook("pre"))},
		row{"a stranger scales, adopt", on(web(5, started), pilot(hooked, adopting), hook("pre"))},
		row{"a retry", on(web(2, started), pilot(hooked, retry), hook("pre"))},
		row{"a write is refused", rejected(on(web(2, started), pilot(hooked)))},
		row{"an annotation of a user is on the set", reported(on(web(2, build.Resize("data=1Gi"), started), pilot(hooked), hook("pre")))},
	)
}

var another = build.LinkOf(api.Link{Operation: "ffffffffffff", Role: api.RoleScaleHook, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}})

func TestChange(t *testing.T) {
	changed := records(api.Scaling)
	late := records(api.Scaling, overdue)
	check(t,
		row{"the controller has not seen it", on(web(3, build.Unseen(), changed), pilot())},
		row{"the same, it is told", reported(on(web(3, build.Unseen(), changed), pilot()))},
		row{"too many are there", reported(on(web(3, build.Counting(4, 3), changed), pilot()))},
		row{"too few are there", reported(on(web(3, build.Counting(2, 2), changed), pilot()))},
		row{"not all are ready", reported(on(web(3, build.Counting(3, 2), changed), pilot()))},
		row{"all are ready", on(web(3, changed), pilot())},
		row{"all are ready, and it is late", on(web(3, late), pilot())},
		row{"not all are ready, and it is late", on(web(3, build.Counting(3, 2), late), pilot(hooked))},
		row{"it is late, and no hook is for that", on(web(3, build.Counting(3, 2), late), pilot())},
		row{"not seen, and it is late", on(web(3, build.Unseen(), late), pilot(hooked))},
		row{"none is left", on(web(0, records(api.Scaling, func(s *api.Scale) { s.Target = 0 })), pilot(wants(0)))},
		row{"the hook before is left", on(web(3, changed), pilot(hooked), hook("pre", complete))},
		row{"the hook before is there no more", reported(on(web(3, build.Counting(2, 2), changed), pilot(hooked), hook("pre", build.Deleting())))},
		row{"a stranger scales", on(web(2, changed), pilot())},
		row{"a stranger scales, adopt", on(web(5, changed), pilot(hooked, adopting))},
		row{"a write is refused", rejected(on(web(3, changed), pilot(hooked)))},
		row{"a retry", on(web(3, changed), pilot(retry))},
		row{"the template cannot be read by then", on(web(3, changed), pilot(unread))},
	)
}

func TestAfterTheChange(t *testing.T) {
	ready := records(api.PostScaling)
	late := records(api.PostScaling, overdue)
	check(t,
		row{"there is no hook", on(web(3, ready), pilot())},
		row{"the hook is missing", on(web(3, ready), pilot(hooked))},
		row{"the hook runs, it is told", reported(on(web(3, ready), pilot(hooked), hook("post")))},
		row{"the hook is complete", on(web(3, ready), pilot(hooked), hook("post", complete))},
		row{"the same, and another wish", on(web(3, ready), pilot(hooked, wants(7)), hook("post", complete))},
		row{"the hook has failed", on(web(3, ready), pilot(hooked), hook("post", failed))},
		row{"the hook is overdue", on(web(3, late), pilot(hooked), hook("post"))},
		row{"the hook is being deleted", reported(on(web(3, ready), pilot(hooked), hook("post", build.Deleting())))},
		row{"the template cannot be read", on(web(3, ready), pilot(unread))},
		row{"a member is not ready any more", reported(on(web(3, build.Counting(3, 2), ready), pilot(hooked), hook("post")))},
		row{"a stranger scales", on(web(5, ready), pilot(hooked), hook("post"))},
		row{"a stranger scales, adopt", on(web(5, ready), pilot(hooked, adopting), hook("post"))},
		row{"a write is refused", rejected(on(web(3, ready), pilot(hooked)))},
		row{"the hook before is there", on(web(3, ready), pilot(hooked), hook("pre", complete))},
		row{"the history is full", on(web(3, ready), pilot(edited(fullHistory)))},
		row{"the last of the hooks goes last", on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", complete))},
	)
}

func fullHistory(s *v1alpha1.Scaler) {
	two := int32(2)
	s.Spec.HistoryLimit = &two
	for _, operation := range []string{"222222222222", "111111111111"} {
		s.Status.History = append(s.Status.History, v1alpha1.ScalingResult{Operation: operation, From: 1, To: 2, Result: "Succeeded", Finished: metav1.NewTime(build.Now)})
	}
}

func TestFailing(t *testing.T) {
	failing := records(api.Failing, gaveUp(api.PreScaling))
	made := records(api.Failing, gaveUp(api.PreScaling), hookMade)
	late := records(api.Failing, gaveUp(api.PreScaling), overdue)
	check(t,
		row{"there is no hook", on(web(2, failing), pilot())},
		row{"the hook is missing", on(web(2, failing), pilot(hooked))},
		row{"the hook runs, it is told", reported(on(web(2, made), pilot(hooked), hook("onFailure")))},
		row{"the hook is there", reported(on(web(2, failing), pilot(hooked), hook("onFailure")))},
		row{"its Job was deleted", on(web(2, made), pilot(hooked))},
		row{"the hook is complete", on(web(2, failing), pilot(hooked), hook("onFailure", complete))},
		row{"the hook fails", on(web(2, failing), pilot(hooked), hook("onFailure", failed))},
		row{"the hook is overdue", on(web(2, late), pilot(hooked), hook("onFailure"))},
		row{"the hook is missing, and late", on(web(2, late), pilot(hooked))},
		row{"the hook is being deleted", reported(on(web(2, made), pilot(hooked), hook("onFailure", build.Deleting())))},
		row{"the template cannot be read", on(web(2, failing), pilot(unread))},
		row{"a write is refused", rejected(on(web(2, failing), pilot(hooked)))},
		row{"the hook that failed is left", on(web(2, failing), pilot(hooked), hook("pre", failed))},
		row{"a stranger scales", reported(on(web(5, made), pilot(hooked), hook("onFailure")))},
		row{"a retry comes too early, and stays", reported(on(web(2, made), pilot(hooked, retry), hook("onFailure")))},
		row{"it failed while members started", on(web(3, records(api.Failing, gaveUp(api.Scaling))), pilot())},
		row{"it failed after the change", on(web(3, records(api.Failing, gaveUp(api.PostScaling))), pilot())},
		row{"there is another hook of the name", on(web(2, failing), pilot(hooked), hook("onFailure", another))},
	)
}

func hookMade(s *api.Scale) { s.HookMade = true }

func TestFailed(t *testing.T) {
	at := func(phase api.Phase) build.Option { return records(api.Failed, gaveUp(phase)) }
	check(t,
		row{"it is not told", on(web(2, at(api.PreScaling)), pilot())},
		row{"it is told", reported(on(web(2, at(api.PreScaling)), pilot()))},
		row{"another wish, no retry", reported(on(web(2, at(api.PreScaling)), pilot(wants(7))))},
		row{"a stranger scales", reported(on(web(5, at(api.PreScaling)), pilot()))},
		row{"a stranger scales, adopt", reported(on(web(5, at(api.PreScaling)), pilot(adopting)))},
		row{"the hook is left", on(web(2, at(api.PreScaling)), pilot(hooked), hook("onFailure", complete))},
		row{"retry before the change", on(web(2, at(api.PreScaling)), pilot(retry, hooked))},
		row{"retry by event", retried(on(web(2, at(api.PreScaling)), pilot(hooked)))},
		row{"retry while members start", on(web(3, at(api.Scaling)), pilot(retry))},
		row{"retry after the change", on(web(3, at(api.PostScaling)), pilot(retry, hooked))},
		row{"retry without a count", on(web(2, at(api.PreScaling)), pilot(retry, wishless))},
		row{"retry with another wish", on(web(2, at(api.PreScaling)), pilot(retry, wants(7)))},
		row{"retry after, with another wish", on(web(3, at(api.PostScaling)), pilot(retry, wants(1)))},
		row{"retry, the wish is what there is", on(web(2, at(api.PreScaling)), pilot(retry, wants(2)))},
		row{"retry, a template is wrong", on(web(2, at(api.PreScaling)), pilot(retry, unread))},
		row{"retry, a stranger scaled", on(web(5, at(api.PreScaling)), pilot(retry))},
		row{"retry of what failed for opt-out", on(web(2, records(api.Failed, gaveUp(api.PreScaling), notManaged)), pilot(retry))},
		row{"retry, and the hook is still left", on(web(2, at(api.PreScaling)), pilot(retry, hooked), hook("onFailure", complete))},
	)
}

func notManaged(s *api.Scale) { s.Reason = api.NotManaged }

func TestSecondScaler(t *testing.T) {
	older := scaler("older", 5, build.Age(time.Hour))
	check(t,
		row{"the one of the record scales", on(web(3, quiet(3)), pilot(), older)},
		row{"both are told", reported(on(web(3, quiet(3)), pilot(), older))},
		row{"the older one takes a new set", on(web(2), pilot(), older)},
		row{"of the same age: by UID", on(web(2), pilot(), scaler("another", 9))},
		row{"the first one goes: the other takes", on(web(3, quiet(3)), pilot(build.Deleting()), older)},
		row{"the first one goes during a scaling", on(web(3, records(api.Scaling)), pilot(build.Deleting()), older)},
		row{"a scaling, and the other's retry", on(web(3, records(api.Scaling)), pilot(), scaler("older", 5, retry))},
		row{"there is no set", on(pilot(), older)},
		row{"the second one had failed of its own", on(web(3, quiet(3)), pilot(), scaler("older", 5, edited(hadFailed)))},
	)
}

func hadFailed(s *v1alpha1.Scaler) {
	s.Status.Stage, s.Status.Failed = v1alpha1.StageFailed, &v1alpha1.ScalerFailure{FailedAt: v1alpha1.StageScaling, Reason: "x"}
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.NewTime(build.Now)},
		{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(build.Now)}}
}

// TestNewerWishChangesNothing: from its begin to its end a scaling goes to its target.
func TestNewerWishChangesNothing(t *testing.T) {
	const ended = "the hook after has ended"
	stages := map[string]func(options ...build.Option) Input{
		"the hook before starts": func(o ...build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o...)) },
		"the hook before runs":   func(o ...build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre")) },
		"the hook before has ended": func(o ...build.Option) Input {
			return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre", complete))
		},
		"the hook before has failed": func(o ...build.Option) Input {
			return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre", failed))
		},
		"members start": func(o ...build.Option) Input {
			return on(web(3, build.Counting(3, 2), records(api.Scaling)), pilot(o...))
		},
		"members are ready":   func(o ...build.Option) Input { return on(web(3, records(api.Scaling)), pilot(o...)) },
		"the hook after runs": func(o ...build.Option) Input { return on(web(3, records(api.PostScaling)), pilot(o...), hook("post")) },
		ended: func(o ...build.Option) Input {
			return on(web(3, records(api.PostScaling)), pilot(o...), hook("post", complete))
		},
		"it fails": func(o ...build.Option) Input {
			return on(web(2, records(api.Failing, gaveUp(api.PreScaling))), pilot(o...))
		},
	}
	decide := func(name string, in Input) string {
		p := Decide(in)
		if name == ended { // the status tells of the wish then
			p.Actions = slices.DeleteFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.ScalerStatus })
		}
		return encode(p)
	}
	for name, in := range stages {
		want := decide(name, in(hooked))
		for _, wish := range []build.Option{wants(0), wants(2), wants(7), wishless} {
			if got := decide(name, in(hooked, wish)); got != want {
				t.Errorf("%s: a newer wish\ngot  %s\nwant %s", name, got, want)
			}
		}
	}
}

// TestCountAndRecordAreOneWrite: nothing can come between the change of the count and the word of it.
func TestCountAndRecordAreOneWrite(t *testing.T) {
	p := Decide(on(web(2, records(api.PreScaling)), pilot(hooked), hook("pre", complete)))
	patch := p.Actions[0]
	paths := ""
	for _, op := range patch.Ops {
		paths += op.Path + " "
	}
	if want := "/metadata/resourceVersion /metadata/annotations/drydock.dev~1scale /spec/replicas "; patch.Resource != plan.StatefulSets || paths != want {
		t.Errorf("%s %s", patch.Resource, paths)
	}
	if got := patch.Ops[2].Value; got != int32(3) {
		t.Errorf("replicas = %v", got)
	}
	for _, a := range p.Actions[1:] {
		if a.Resource == plan.StatefulSets {
			t.Errorf("another write: %s", a)
		}
	}
}

// TestDeadlinesOfTheStages are the Scaler's, or those that its schema has.
func TestDeadlinesOfTheStages(t *testing.T) {
	own := edited(func(s *v1alpha1.Scaler) {
		s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "1m", Scaling: "2m", Post: "3m", OnFailure: "4m"}
	})
	none := edited(func(s *v1alpha1.Scaler) { s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "x", Scaling: "0s"} })
	for name, row := range map[string]struct {
		in        func(build.Option) Input
		own, none time.Duration
	}{
		"before":     {func(o build.Option) Input { return on(web(2, quiet(2)), pilot(o)) }, time.Minute, 10 * time.Minute},
		"the change": {func(o build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o)) }, 2 * time.Minute, 30 * time.Minute},
		"after":      {func(o build.Option) Input { return on(web(3, records(api.Scaling)), pilot(o)) }, 3 * time.Minute, 10 * time.Minute},
		"a failure": {func(o build.Option) Input {
			return on(web(3, build.Counting(3, 1), records(api.Scaling, overdue)), pilot(hooked, o))
		},
			4 * time.Minute, 10 * time.Minute},
	} {
		for option, want := range map[*build.Option]time.Duration{&own: row.own, &none: row.none} {
			if got := stored(Decide(row.in(*option))).Deadline.Sub(build.Now); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// TestOperationsOfRetriesDiffer, so that no Job of a hook is taken for another's.
func TestOperationsOfRetriesDiffer(t *testing.T) {
	seen := map[string]string{build.ID: "the first"}
	for _, phase := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		count := int32(3)
		if phase == api.PreScaling {
			count = 2
		}
		for attempt := range 3 {
			next := stored(Decide(on(web(count, records(api.Failed, gaveUp(phase), func(s *api.Scale) { s.Attempt = attempt })), pilot(retry))))
			if next.Phase != phase || next.FailedAt != "" {
				t.Errorf("%s: %s", phase, summary(next))
			}
			if was, twice := seen[next.Operation]; twice && !strings.Contains(was, "attempt") {
				t.Errorf("%s attempt %d has the operation of %s", phase, attempt, was)
			}
			seen[next.Operation] = string(phase) + " attempt"
		}
	}
}

// TestRetryOfWhatWasStoppedWhileItFailed begins where the scaling had failed, and not with the hook for a failure.
func TestRetryOfWhatWasStoppedWhileItFailed(t *testing.T) {
	in := on(web(3, optOut, records(api.Failing, gaveUp(api.PostScaling))), pilot(hooked))
	for _, a := range Decide(in).Actions {
		in = in.after(a)
	}
	in.Set = build.With(in.Set, build.Label(api.ManagedLabel, "true"))
	if next := stored(Decide(retried(in))); next == nil || next.Phase != api.PostScaling || next.FailedAt != "" {
		t.Errorf("it goes on with %s", summary(next))
	}
}
