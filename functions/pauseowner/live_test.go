package pauseowner

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// grown is an operation whose claims have grown in place; its set is to be created again.
func grown(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(phase, append([]func(*api.Resize){build.ReplacesSet, build.Due(time.Minute), func(s *api.Resize) {
		s.Expansions = []api.Expansion{{Claim: "data-web-0", Done: true}}
	}}, options...)...)
}

// TestConsentToAnOperationThatStopsNothing: what nobody has to stop is not stopped, but its owner would undo it all the same.
func TestConsentToAnOperationThatStopsNothing(t *testing.T) {
	const goesOn = "do OwnerConsents: patch statefulsets web {+status} -> owner.paused"
	const counts = ", attempt 1, due in "
	const part = "; data-web-0 grows, done true"
	const moving = "Moving OwnerConsents" + counts + "20h0m0s" + part
	const paused = "patch " + string(resource) + " main {+" + key + ", +owner-paused}"
	mixed := grown(api.Planned, build.Members(api.MemberPending, "data-web-1"))
	ignores := build.Annotation(api.OwnerPolicyAnnotation, "ignore")
	in := func(status *api.Resize, options ...build.Option) Input {
		return Input{Observed: build.World(build.Set("web", append([]build.Option{build.Status(status), build.Replicas(3)}, options...)...)), Settings: build.Settings()}
	}
	owned := func(in Input, owner ...Owner) Input {
		in.Owners = owner
		return in
	}
	byMain := build.Owned(kind, "main")
	problem := ownerIs(redis(nil))
	problem[0].Problem = "nobody knows how"
	for name, row := range map[string]struct {
		in   Input
		want string
		next string
	}{
		"nobody owns the set: it is created again while it runs": {in: in(grown(api.Planned)), want: goesOn, next: moving},
		"its template is all that changes": {
			in: in(grown(api.Planned, func(s *api.Resize) { s.Expansions = nil })), want: goesOn, next: "Moving OwnerConsents" + counts + "20h0m0s"},
		"one claim is to be copied": {
			in: in(mixed), want: goesOn, next: moving + "; 1 Pending"},
		"I5: its owner is paused before": {
			in: owned(in(grown(api.Planned), byMain), ownerIs(redis(nil))...), want: "do OwnerPausing: create controllerrevisions drydock-" + build.ID + "-owner-2b2628ce; " + paused},
		"it consents": {
			in: owned(in(grown(api.Planned), byMain), ownerIs(redis(held(build.ID)))...), want: goesOn, next: moving},
		"it is to be ignored": {
			in: in(grown(api.Planned), byMain, ignores), want: goesOn, next: moving},
		"it cannot be paused": {
			in: owned(in(grown(api.Planned), byMain), problem...), want: "do OwnerNotPausable: patch statefulsets web {+status}",
			next: "Reverting OwnerNotPausable at Planned" + counts + "12m0s" + part},
		"somebody aborts": {
			in: in(grown(api.Planned), build.Annotation(api.AbortAnnotation, "")), want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "Reverting Aborted at Planned" + counts + "12m0s" + part},
		"I8: the deadline has passed": {
			in: in(grown(api.Planned, build.Due(-time.Second))), want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: "Reverting DeadlineExceeded at Planned" + counts + "12m0s" + part},
		"claims grow still: that is detect-resize's": {in: in(grown(api.Expanding)), want: "noop NotOurPhase"},
		"I7: it has gone on already":                 {in: in(grown(api.Moving)), want: "noop NotOurPhase"},
	} {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next, redis(nil))
		})
	}
	p := Decide(in(grown(api.Planned)))
	if next := build.Stored(p); !strings.Contains(next.Message, "while its pods run") {
		t.Errorf("stores %+v", next)
	}
	for _, a := range p.Actions {
		if strings.Contains(a.String(), "replicas") {
			t.Errorf("I4: %s", a)
		}
	}
	if p := Decide(in(grown(api.Planned))); p.Purpose != "resize" {
		t.Errorf("it is announced as a %s", p.Purpose)
	}
}

// TestI5OwnerOfALiveOperationIsResumed: when it is over, however it ended, and not before.
// Invariants: I5.
func TestI5OwnerOfALiveOperationIsResumed(t *testing.T) {
	for name, row := range map[string]struct {
		status *api.Resize
		stays  bool
	}{
		"the set is created again":           {grown(api.Moving), true},
		"what it has made is removed":        {grown(api.Finishing), false},
		"it is given back":                   {grown(api.Reverting), true},
		"it is done":                         {grown(api.Succeeded), false},
		"it was given up while claims grew":  {grown(api.Failed, func(s *api.Resize) { s.FailedAt = api.Expanding }), false},
		"it was given up with members moved": {grown(api.Failed, build.Members(api.MemberMoved, "data-web-1"), func(s *api.Resize) { s.FailedAt = api.Moving }), false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := redis(held(build.ID))
			in := Input{Observed: build.World(build.Set("web", build.Status(row.status), build.Owned(kind, "main"))), Settings: build.Settings(), Records: []Record{recordOf(build.ID, owner)}}
			p := Decide(in)
			if stays := p.String() == "noop OwnerStays"; stays != row.stays || !stays && p.Reason != api.OwnerResumed {
				t.Error(p)
			}
		})
	}
}
