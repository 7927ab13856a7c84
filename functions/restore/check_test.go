package restore

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// withCheck gives the set of the input a member check.
func withCheck(in Input, options ...build.Option) Input {
	again := *in.Observed
	check := build.Annotation(api.MemberCheckAnnotation, "http:8008/caught-up")
	again.Set = build.With(in.Set.DeepCopy(), append([]build.Option{check}, options...)...)
	in.Observed = &again
	return in
}

const lags = "pod web-1 answers 503 to its member check; 200 to 299 mean that it has caught up"

// checkAnswers are the answers of the pods to the member check.
func checkAnswers(found map[types.UID]string) func(*Input) {
	return func(in *Input) { in.Checks = found }
}

var (
	allGood   = checkAnswers(map[types.UID]string{"uid-web-0": "", "uid-web-1": ""})
	oneBehind = checkAnswers(map[types.UID]string{"uid-web-0": "", "uid-web-1": lags})
	freshGood = checkAnswers(map[types.UID]string{"uid-fresh": ""})
	freshLags = checkAnswers(map[types.UID]string{"uid-fresh": "pod web-0 answers 503 to its member check"})
)

// checkedBefore says how long ago the check of the member's others was good for the first time.
func checkedBefore(ordinal int, ago time.Duration) func(*api.Resize) {
	return build.EditMember(ordinal, func(m *api.Member) { m.CheckedAt = operation.Moment(build.Now.Add(-ago)) })
}

// TestMemberStopsAfterOthersCaughtUpTwice: in a rolling resize, two good answers of all other members come before a stop.
func TestMemberStopsAfterOthersCaughtUpTwice(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return withCheck(situation(lastOfThree(api.MemberWaiting, options...), otherMembers(), pod(2)))
	}
	forbids := func(in *Input) { allGood(in); budgetForbids(in) }
	told := at(func(r *api.Resize) {
		r.Reason, r.Message = api.GateClosed, "pod web-2 is not stopped yet: "+lags
	})
	stopping := withCheck(situation(lastOfThree(api.MemberStopping, build.MemberDue(2, time.Minute)), otherMembers(),
		pod(2, build.Held(2))))
	check(t,
		testCase{"01 the others have not been asked", at()},
		testCase{"02 one has not caught up: the record says so", with(at(), oneBehind)},
		testCase{"03 one has not caught up: the record says so only once", with(told, oneBehind)},
		testCase{"04 all have caught up: the time is stored", with(at(), allGood)},
		testCase{"05 a second later: they are not asked yet", at(checkedBefore(2, time.Second))},
		testCase{"06 they must be asked again", at(checkedBefore(2, checkPause))},
		testCase{"07 one has fallen behind: the check begins again", with(at(checkedBefore(2, checkPause)), oneBehind)},
		testCase{"08 all have still caught up: the member is stopped", with(at(checkedBefore(2, checkPause)), allGood)},
		testCase{"09 the first answer is too old: this answer is the first", with(at(checkedBefore(2, checkFresh)), allGood)},
		testCase{"10 a budget closes the gate after the first answer: that answer no longer counts",
			with(at(checkedBefore(2, checkPause)), forbids)},
		testCase{"11 the process died before the eviction: the others must be asked again", stopping},
		testCase{"12 the process died, and one has fallen behind: the pod is released", with(stopping, oneBehind)},
		testCase{"13 the process died, and all have still caught up: the eviction follows", with(stopping, allGood)},
		testCase{"14 the annotation was damaged", withCheck(at(), build.Annotation(api.MemberCheckAnnotation, "exec:ready"))},
		testCase{"15 the member has no pod: the others need not catch up",
			withCheck(situation(lastOfThree(api.MemberWaiting), otherMembers()),
				build.Replicas(2))},
	)
}

// TestFirstGoodAnswerIsStoredAndCleared: the time of the first good answer is in the record until the member stops or answers badly.
func TestFirstGoodAnswerIsStoredAndCleared(t *testing.T) {
	at := func(options ...func(*api.Resize)) Input {
		return withCheck(situation(lastOfThree(api.MemberWaiting, options...), otherMembers(), pod(2)))
	}
	for says, row := range map[string]struct {
		in    Input
		noted bool
	}{
		"good for the first time":       {with(at(), allGood), true},
		"good again, much later":        {with(at(checkedBefore(2, time.Hour)), allGood), true},
		"bad after a good one":          {with(at(checkedBefore(2, checkPause)), oneBehind), false},
		"good twice, and it is stopped": {with(at(checkedBefore(2, checkPause)), allGood), false},
		"the gate is shut by a budget":  {with(at(checkedBefore(2, time.Second)), budgetForbids), false},
	} {
		t.Run(says, func(t *testing.T) {
			record := build.Stored(Decide(row.in))
			if record == nil {
				t.Fatal("no record is stored")
			}
			switch is := record.Member(2).CheckedAt; {
			case row.noted && (is == nil || !is.Time.Equal(build.Now)):
				t.Errorf("noted is %v, want now", is)
			case !row.noted && is != nil:
				t.Errorf("noted is %v, want nothing", is)
			}
		})
	}
}

// TestWholeResizeSkipsMemberCheck: where all members stop together, no member has to replace another one, so the check is useless.
func TestWholeResizeSkipsMemberCheck(t *testing.T) {
	in := withCheck(situation(twoTogether(build.Members(api.MemberWaiting, web0, web1)), pod(0), pod(1)))
	check(t, testCase{"they are stopped", in})
	expectAsked(t, in)
}

// TestStartedMemberMustCatchUp: a ready member is not moved before it has caught up.
func TestStartedMemberMustCatchUp(t *testing.T) {
	fresh := build.UID("uid-fresh")
	at := func(due time.Duration, options ...build.Option) Input {
		record := movingOne(api.MemberStarting, build.MemberDue(0, due))
		return withCheck(situation(setWith(record), journalOf(web0), pod(0, append(options, fresh)...), swappedClaim(web0)))
	}
	damaged := func(in Input) Input { return withCheck(in, build.Annotation(api.MemberCheckAnnotation, "")) }
	check(t,
		testCase{"it is not ready: it is not asked", at(time.Minute, notReady())},
		testCase{"it is ready, and has not been asked", at(time.Minute)},
		testCase{"it has not caught up: the record says so", with(at(time.Minute), freshLags)},
		testCase{"it has not caught up in time: the operation is given up, and the member stays on its new volumes",
			with(at(-time.Second), freshLags)},
		testCase{"it has caught up", with(at(time.Minute), freshGood)},
		testCase{"it has caught up after the deadline: the answer counts", with(at(-time.Second), freshGood)},
		testCase{"the annotation was emptied", damaged(at(time.Minute))},
	)
}

// TestMemberCheckAsksOnlyWhenNeeded: each question costs a connection.
func TestMemberCheckAsksOnlyWhenNeeded(t *testing.T) {
	waiting := func(options ...func(*api.Resize)) objects { return lastOfThree(api.MemberWaiting, options...) }
	fresh := append(setWith(movingOne(api.MemberStarting, build.MemberDue(0, time.Minute))), journalOf(web0)...)
	givenUp := setWith(build.Operation(api.Reverting, build.Members(api.MemberStarting, web0)))
	for says, row := range map[string]struct {
		in   Input
		want []string
	}{
		"the gate is open otherwise": {withCheck(situation(waiting(), otherMembers(), pod(2))), []string{"web-0", "web-1"}},
		"the set has no check":       {situation(waiting(), otherMembers(), pod(2)), nil},
		"the annotation is damaged": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.MemberCheckAnnotation,
			"x")), nil},
		"another member is not ready": {withCheck(situation(waiting(), otherMembers(notReady()), pod(2))), nil},
		"the stop is not approved": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.CutoverAnnotation,
			"approve")), nil},
		"the member is copied":      {withCheck(situation(lastOfThree(api.MemberCopying), otherMembers(), pod(2))), nil},
		"the first answer is fresh": {withCheck(situation(waiting(checkedBefore(2, 0)), otherMembers(), pod(2))), nil},
		"the member ends":           {withCheck(situation(lastOfThree(api.MemberStopping), otherMembers(), endingPod(2))), nil},
		"the operation is aborted": {withCheck(situation(waiting(), otherMembers(), pod(2)), build.Annotation(api.AbortAnnotation, "")),
			nil},
		"the member starts":   {withCheck(situation(fresh, pod(0, build.UID("uid-fresh"), notReady()), swappedClaim(web0))), nil},
		"the member is ready": {withCheck(situation(fresh, pod(0, build.UID("uid-fresh")), swappedClaim(web0))), []string{"web-0"}},
		"the operation is given up": {withCheck(situation(givenUp, journalOf(web0), pod(0, build.UID("uid-fresh")), swappedClaim(web0))),
			nil},
		"the answers are there": {with(withCheck(situation(waiting(), otherMembers(), pod(2))), allGood), nil},
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
		t.Errorf("got questions to %v, want %v", names, want)
	}
}

// TestMemberCheckOfAFastClockDelaysNoDays: a process with a clock thirty days ahead wrote the time of the first good check.
func TestMemberCheckOfAFastClockDelaysNoDays(t *testing.T) {
	in := withCheck(situation(lastOfThree(api.MemberWaiting, checkedBefore(2, -30*24*time.Hour)), otherMembers(), pod(2)))
	allGood(&in)
	if p := Decide(in); p.Kind != plan.KindDo {
		t.Errorf("all others have caught up, and the member does not stop for thirty days: %s", p)
	}
}
