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
	return build.Operation(phase, append([]func(*api.Resize){build.Parts(api.ClaimExpanded, "data-web-0"), build.Due(time.Minute), func(s *api.Resize) {
		s.Method, s.Recreate, s.Claims[0].Method = api.MethodExpand, true, api.MethodExpand
	}}, options...)...)
}

// TestConsentToAnOperationThatStopsNothing: what nobody has to stop is not stopped, but its owner would undo it all the same.
func TestConsentToAnOperationThatStopsNothing(t *testing.T) {
	const goesOn = "do OwnerConsents: patch statefulsets web {+status} -> owner.paused"
	const counts = ", attempt 1, round 1, generation 0, replicas 3, due in "
	const switching = "Switching OwnerConsents" + counts + "12m0s; data-web-0 Expanded"
	const paused = "patch " + string(resource) + " main {+" + key + ", +owner-paused}"
	mixed := grown(api.Planned, build.Parts(api.ClaimPending, "data-web-1"), func(s *api.Resize) { s.Method = api.MethodCopy })
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
		"nobody owns the set: it is created again while it runs": {in: in(grown(api.Planned)), want: goesOn, next: switching},
		"its template is all that changes": {
			in: in(grown(api.Planned, func(s *api.Resize) { s.Claims = nil })), want: goesOn, next: "Switching OwnerConsents" + counts + "12m0s"},
		"one claim is to be copied: backup is next": {
			in: in(mixed), want: goesOn, next: "Copying OwnerConsents" + counts + "20h0m0s; data-web-0 Expanded; data-web-1 Pending"},
		"all its claims have grown, but the method is copy: a status of before": {
			in: in(grown(api.Planned, func(s *api.Resize) { s.Method = api.MethodCopy })), want: goesOn, next: "Copying OwnerConsents" + counts + "20h0m0s; data-web-0 Expanded"},
		"I5: its owner is paused before": {
			in: owned(in(grown(api.Planned), byMain), ownerIs(redis(nil))...), want: "do OwnerPausing: create controllerrevisions drydock-" + build.ID + "-owner-2b2628ce; " + paused},
		"it consents": {
			in: owned(in(grown(api.Planned), byMain), ownerIs(redis(held(build.ID)))...), want: goesOn, next: switching},
		"it is to be ignored": {
			in: in(grown(api.Planned), byMain, ignores), want: goesOn, next: switching},
		"it cannot be paused": {
			in: owned(in(grown(api.Planned), byMain), problem...), want: "do OwnerNotPausable: patch statefulsets web {+status}",
			next: "RollingBack OwnerNotPausable at Planned" + counts + "12m0s; data-web-0 Expanded"},
		"somebody aborts": {
			in: in(grown(api.Planned), build.Annotation(api.AbortAnnotation, "")), want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "RollingBack Aborted at Planned" + counts + "12m0s; data-web-0 Expanded"},
		"I8: the deadline has passed": {
			in: in(grown(api.Planned, build.Due(-time.Second))), want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: "RollingBack DeadlineExceeded at Planned" + counts + "12m0s; data-web-0 Expanded"},
		"claims grow still: that is detect-resize's": {in: in(grown(api.Expanding)), want: "noop NotOurPhase"},
		"I7: it has gone on already":                 {in: in(grown(api.Switching)), want: "noop NotOurPhase"},
	} {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next, redis(nil))
		})
	}
	p := Decide(in(grown(api.Planned)))
	if next := build.Stored(p); !strings.Contains(next.Message, "while its pods run") || next.Stopped != nil || next.Stopping != nil {
		t.Errorf("stores %+v", next)
	}
	for _, a := range p.Actions {
		if strings.Contains(a.String(), "replicas") || strings.Contains(a.String(), "frozen") {
			t.Errorf("I4: %s", a)
		}
	}
	if p := Decide(in(grown(api.Planned))); p.Purpose != "resize" {
		t.Errorf("it is announced as a %s", p.Purpose)
	}
}

// TestI5OwnerOfALiveOperationIsResumed: when it is over, however it ended, and not before.
func TestI5OwnerOfALiveOperationIsResumed(t *testing.T) {
	for name, row := range map[string]struct {
		status *api.Resize
		stays  bool
	}{
		"the set is created again":                 {grown(api.Switching), true},
		"its replicas are waited for":              {grown(api.Starting), false},
		"it is given back":                         {grown(api.RollingBack), true},
		"it is done":                               {grown(api.Succeeded), false},
		"it was given up while claims grew":        {grown(api.Failed, func(s *api.Resize) { s.FailedAt = api.Expanding }), false},
		"the set could not be created again":       {grown(api.Failed, func(s *api.Resize) { s.FailedAt = api.Switching }), false},
		"a claim was copied, and may not be whole": {grown(api.Failed, func(s *api.Resize) { s.FailedAt, s.Method, s.Claims[0].Method = api.Switching, api.MethodCopy, "" }), true},
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
