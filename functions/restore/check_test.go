package restore

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// checks gives the set in a world a member check.
func checks(in Input, options ...build.Option) Input {
	again := *in.Observed
	check := build.Annotation(api.MemberCheckAnnotation, "http:8008/caught-up")
	again.Set = build.With(in.Set.DeepCopy(), append([]build.Option{check}, options...)...)
	in.Observed = &again
	return in
}

const lags = "pod web-1 answers 503 to its member check; 200 to 299 mean that it has caught up"

// answers are what the pods have answered to the member check.
func answers(found map[types.UID]string) func(*Input) {
	return func(in *Input) { in.Checks = found }
}

var (
	allGood   = answers(map[types.UID]string{"uid-web-0": "", "uid-web-1": ""})
	oneBehind = answers(map[types.UID]string{"uid-web-0": "", "uid-web-1": lags})
	freshGood = answers(map[types.UID]string{"uid-fresh": ""})
	freshLags = answers(map[types.UID]string{"uid-fresh": "pod web-0 answers 503 to its member check"})
)

// checked says that the check was good for the first time so long ago.
func checked(ordinal int, ago time.Duration) func(*api.Resize) {
	return build.EditMember(ordinal, func(m *api.Member) { m.Checked = operation.Moment(build.Now.Add(-ago)) })
}

// TestMemberIsStoppedWhenTheOthersHaveCaughtUpTwice: in a rolling resize.
func TestMemberIsStoppedWhenTheOthersHaveCaughtUpTwice(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return checks(given(rolling3(api.MemberWaiting, options...), others(), pod(2)))
	}
	forbids := func(in *Input) { allGood(in); forbidden(in) }
	told := at(func(r *api.Resize) {
		r.Reason, r.Message = api.GateClosed, "pod web-2 is not stopped yet: "+lags
	})
	stopping := checks(given(rolling3(api.MemberStopping, build.MemberDue(2, time.Minute)), others(), pod(2, build.Held(2))))
	check(t,
		row{"01 the others have not been asked", at()},
		row{"02 one has not caught up: that is said", but(at(), oneBehind)},
		row{"03 one has not caught up: that is said once", but(told, oneBehind)},
		row{"04 all have: that is noted", but(at(), allGood)},
		row{"05 a second later they are not asked", at(checked(2, time.Second))},
		row{"06 they are to be asked once more", at(checked(2, checkPause))},
		row{"07 one has fallen behind since: it begins anew", but(at(checked(2, checkPause)), oneBehind)},
		row{"08 all have caught up still: the member is stopped", but(at(checked(2, checkPause)), allGood)},
		row{"09 the first answer is too old: this one is the first", but(at(checked(2, checkFresh)), allGood)},
		row{"10 a budget shuts the gate after the first answer: it counts no more", but(at(checked(2, checkPause)), forbids)},
		row{"11 the process died before the eviction: they are to be asked once more", stopping},
		row{"12 the process died, and one has fallen behind: the pod is released", but(stopping, oneBehind)},
		row{"13 the process died, and all have caught up still: the eviction follows", but(stopping, allGood)},
		row{"14 the annotation was damaged meanwhile", checks(at(), build.Annotation(api.MemberCheckAnnotation, "exec:ready"))},
		row{"15 the member has no pod: none is missed", checks(given(rolling3(api.MemberWaiting), others()),
			build.Replicas(2))},
	)
}

// TestFirstGoodAnswerIsNotedAndForgotten: what the golden files do not show.
func TestFirstGoodAnswerIsNotedAndForgotten(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return checks(given(rolling3(api.MemberWaiting, options...), others(), pod(2)))
	}
	for says, row := range map[string]struct {
		in    Input
		noted bool
	}{
		"good for the first time":       {but(at(), allGood), true},
		"good again, much later":        {but(at(checked(2, time.Hour)), allGood), true},
		"bad after a good one":          {but(at(checked(2, checkPause)), oneBehind), false},
		"good twice, and it is stopped": {but(at(checked(2, checkPause)), allGood), false},
		"the gate is shut by a budget":  {but(at(checked(2, time.Second)), forbidden), false},
	} {
		t.Run(says, func(t *testing.T) {
			record, _ := build.StoredRecord(Decide(row.in)).(*api.Resize)
			if record == nil {
				t.Fatal("no record is stored")
			}
			switch is := record.Member(2).Checked; {
			case row.noted && (is == nil || !is.Time.Equal(build.Now)):
				t.Errorf("noted is %v, want now", is)
			case !row.noted && is != nil:
				t.Errorf("noted is %v, want nothing", is)
			}
		})
	}
}

// TestMemberCheckIsNotAskedBeforeMembersStopTogether: a check tells nothing of use where all are missed.
func TestMemberCheckIsNotAskedBeforeMembersStopTogether(t *testing.T) {
	in := checks(given(whole2(build.Members(api.MemberWaiting, web0, web1)), pod(0), pod(1)))
	check(t, row{"they are stopped", in})
	expectAsked(t, in)
}

// TestMemberIsMovedWhenItHasCaughtUp: readiness is not enough.
func TestMemberIsMovedWhenItHasCaughtUp(t *testing.T) {
	fresh := build.UID("uid-fresh")
	at := func(due time.Duration, options ...build.Option) Input {
		record := moving0(api.MemberStarting, build.MemberDue(0, due))
		return checks(given(set(record), journal(web0), pod(0, append(options, fresh)...), switched(web0)))
	}
	damaged := func(in Input) Input { return checks(in, build.Annotation(api.MemberCheckAnnotation, "")) }
	check(t,
		row{"it is not ready: it is not asked", at(time.Minute, notReady())},
		row{"it is ready, and has not been asked", at(time.Minute)},
		row{"it has not caught up: that is said", but(at(time.Minute), freshLags)},
		row{"it has not caught up in time: the operation is given up, the member stays on its new volumes", but(at(-time.Second), freshLags)},
		row{"it has caught up", but(at(time.Minute), freshGood)},
		row{"it has caught up after the deadline: that counts", but(at(-time.Second), freshGood)},
		row{"the annotation was emptied meanwhile", damaged(at(time.Minute))},
	)
}

// TestPodsAreAskedOnlyWhenTheDecisionNeedsIt: each question is a connection.
func TestPodsAreAskedOnlyWhenTheDecisionNeedsIt(t *testing.T) {
	waiting := func(options ...func(*api.Resize)) objects { return rolling3(api.MemberWaiting, options...) }
	fresh := append(set(moving0(api.MemberStarting, build.MemberDue(0, time.Minute))), journal(web0)...)
	givenUp := set(build.Operation(api.Reverting, build.Members(api.MemberStarting, web0)))
	for says, row := range map[string]struct {
		in   Input
		want []string
	}{
		"the gate is open otherwise":  {checks(given(waiting(), others(), pod(2))), []string{"web-0", "web-1"}},
		"the set has no check":        {given(waiting(), others(), pod(2)), nil},
		"the annotation is damaged":   {checks(given(waiting(), others(), pod(2)), build.Annotation(api.MemberCheckAnnotation, "x")), nil},
		"another member is not ready": {checks(given(waiting(), others(notReady()), pod(2))), nil},
		"the stop is not approved":    {checks(given(waiting(), others(), pod(2)), build.Annotation(api.CutoverAnnotation, "approve")), nil},
		"the member is copied":        {checks(given(rolling3(api.MemberCopying), others(), pod(2))), nil},
		"the first answer is fresh":   {checks(given(waiting(checked(2, 0)), others(), pod(2))), nil},
		"the member ends":             {checks(given(rolling3(api.MemberStopping), others(), ending(2))), nil},
		"the operation is aborted":    {checks(given(waiting(), others(), pod(2)), build.Annotation(api.AbortAnnotation, "")), nil},
		"the member starts":           {checks(given(fresh, pod(0, build.UID("uid-fresh"), notReady()), switched(web0))), nil},
		"the member is ready":         {checks(given(fresh, pod(0, build.UID("uid-fresh")), switched(web0))), []string{"web-0"}},
		"the operation is given up":   {checks(given(givenUp, journal(web0), pod(0, build.UID("uid-fresh")), switched(web0))), nil},
		"the answers are there":       {but(checks(given(waiting(), others(), pod(2))), allGood), nil},
	} {
		t.Run(says, func(t *testing.T) { expectAsked(t, row.in, row.want...) })
	}
}

func expectAsked(t *testing.T, in Input, want ...string) {
	t.Helper()
	_, ask := decide(in)
	var names []string
	for _, pod := range ask {
		names = append(names, pod.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("%v are asked, want %v", names, want)
	}
}
