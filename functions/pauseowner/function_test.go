package pauseowner

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// grownInPlace is an operation whose claims have grown in place and whose set must be created again.
func grownInPlace(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(phase, append([]func(*api.Resize){build.ReplacesSet, build.Due(time.Minute), func(s *api.Resize) {
		s.Expansions = []api.Expansion{{Claim: "data-web-0", Done: true}}
	}}, options...)...)
}

// TestRecreationPausesOwner: such an operation stops no pod, but an owner would still undo it.
// Invariants: I4, I5, I7, I8.
func TestRecreationPausesOwner(t *testing.T) {
	mixed := grownInPlace(api.Planned, build.Members(api.MemberPending, "data-web-1"))
	ignores := build.Annotation(api.OwnerPolicyAnnotation, "ignore")
	in := func(status *api.Resize, options ...build.Option) Input {
		return Input{Observed: build.World(build.Set("web", append([]build.Option{build.Status(status), build.Replicas(3)},
			options...)...)), Settings: build.Settings()}
	}
	owned := func(in Input, owner ...Owner) Input {
		in.Owners = owner
		return in
	}
	byMain := build.ControlledBy(kind, "main")
	problem := ownersOf(redisOwner(nil))
	problem[0].Problem = "the operator has no pause"
	check(t, map[string]Input{
		"the set has no owner: it is created again while it runs": in(grownInPlace(api.Planned)),
		"only its template changes": in(grownInPlace(api.Planned,
			func(s *api.Resize) { s.Expansions = nil })),
		"one claim must be copied": in(mixed),
		"its owner is paused first": owned(in(grownInPlace(api.Planned), byMain),
			ownersOf(redisOwner(nil))...),
		"its owner is already paused": owned(in(grownInPlace(api.Planned), byMain),
			ownersOf(redisOwner(heldFor(build.ID)))...),
		"owner-policy ignores its owner":                         in(grownInPlace(api.Planned), byMain, ignores),
		"its owner cannot be paused":                             owned(in(grownInPlace(api.Planned), byMain), problem...),
		"the operation is aborted":                               in(grownInPlace(api.Planned), build.Annotation(api.AbortAnnotation, "")),
		"the deadline has passed":                                in(grownInPlace(api.Planned, build.Due(-time.Second))),
		"claims are still growing: detect-resize is responsible": in(grownInPlace(api.Expanding)),
		"the operation has already started":                      in(grownInPlace(api.Moving)),
	})
	p := Decide(in(grownInPlace(api.Planned)))
	for _, a := range p.Actions {
		if strings.Contains(a.String(), "replicas") {
			t.Errorf("the replicas are written: %s", a)
		}
	}
	if p := Decide(in(grownInPlace(api.Planned))); p.Purpose != "resize" {
		t.Errorf("it is announced as a %s", p.Purpose)
	}
}

// TestOwnerIsResumedAfterRecreation: the pause ends with the operation, however that ends, and not earlier.
// Invariants: I5.
func TestOwnerIsResumedAfterRecreation(t *testing.T) {
	for name, row := range map[string]struct {
		status *api.Resize
		stays  bool
	}{
		"the set is created again":          {grownInPlace(api.Moving), true},
		"its objects are being removed":     {grownInPlace(api.Finishing), false},
		"it is being reverted":              {grownInPlace(api.Reverting), true},
		"it is done":                        {grownInPlace(api.Succeeded), false},
		"it was given up while claims grew": {grownInPlace(api.Failed, func(s *api.Resize) { s.FailedAt = api.Expanding }), false},
		"it was given up with members moved": {grownInPlace(api.Failed, build.Members(api.MemberMoved, "data-web-1"),
			func(s *api.Resize) { s.FailedAt = api.Moving }), false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := redisOwner(heldFor(build.ID))
			in := Input{Observed: build.World(build.Set("web", build.Status(row.status), build.ControlledBy(kind, "main"))),
				Settings: build.Settings(), OwnerRecords: []OwnerRecord{ownerRecordOf(build.ID, owner)}}
			p := Decide(in)
			if stays := p.String() == "noop OwnerStays"; stays != row.stays || !stays && p.Reason != api.OwnerResumed {
				t.Error(p)
			}
		})
	}
}
