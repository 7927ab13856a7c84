package pauseowner

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
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
	check(t, map[string]Input{
		"nobody owns the set: it is created again while it runs": in(grown(api.Planned)),
		"its template is all that changes":                       in(grown(api.Planned, func(s *api.Resize) { s.Expansions = nil })),
		"one claim is to be copied":                              in(mixed),
		"I5: its owner is paused before":                         owned(in(grown(api.Planned), byMain), ownerIs(redis(nil))...),
		"it consents":                                            owned(in(grown(api.Planned), byMain), ownerIs(redis(held(build.ID)))...),
		"it is to be ignored":                                    in(grown(api.Planned), byMain, ignores),
		"it cannot be paused":                                    owned(in(grown(api.Planned), byMain), problem...),
		"somebody aborts":                                        in(grown(api.Planned), build.Annotation(api.AbortAnnotation, "")),
		"I8: the deadline has passed":                            in(grown(api.Planned, build.Due(-time.Second))),
		"claims grow still: that is detect-resize's":             in(grown(api.Expanding)),
		"I7: it has gone on already":                             in(grown(api.Moving)),
	})
	p := Decide(in(grown(api.Planned)))
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
