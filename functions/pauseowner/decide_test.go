package pauseowner

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func TestDecide(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Parts(api.ClaimPending, "data-web-0"))
	late := build.Operation(api.Planned, build.Due(-time.Second))
	const goesOn = "do OwnerConsents: patch statefulsets web {+status} -> owner.paused"
	const copying = "Copying OwnerConsents, attempt 1, round 1, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending"
	const part = ", attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Pending"
	set := func(status *api.Status, options ...build.Option) Input {
		options = append([]build.Option{build.Status(status), build.Replicas(3)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Settings: build.Settings()}
	}
	for name, row := range map[string]struct {
		in   Input
		want string
		next string
	}{
		"there is no set":                 {in: Input{Observed: build.World()}, want: "noop SetGone"},
		"the set is being deleted":        {in: set(planned, build.Deleting()), want: "noop SetGone"},
		"the status cannot be read":       {in: set(planned, build.Annotation(api.StatusAnnotation, "{")), want: "noop StatusInvalid"},
		"there is no operation":           {in: Input{Observed: build.World(build.Set("web"))}, want: "noop NotOurPhase"},
		"another function has it":         {in: set(build.Operation(api.Copying)), want: "noop NotOurPhase"},
		"I3: the status is another set's": {in: set(planned, build.UID("uid-2")), want: "noop NotOurPhase"},
		"nobody owns the set":             {in: set(planned), want: goesOn, next: copying},
		"an owner that is to be ignored":  {in: set(planned, build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")), want: goesOn, next: copying},
		"I5: an owner that came meanwhile": {
			in:   set(planned, build.Owned("Database", "main")),
			want: "do OwnerNotPausable: patch statefulsets web {+status}",
			next: "RollingBack OwnerNotPausable at Planned" + part,
		},
		"an owner, and a policy that is none": {
			in:   set(planned, build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "whatever")),
			want: "do OwnerNotPausable: patch statefulsets web {+status}",
			next: "RollingBack OwnerNotPausable at Planned" + part,
		},
		"somebody aborts; the annotation is taken": {
			in:   set(planned, build.Annotation(api.AbortAnnotation, "")),
			want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "RollingBack Aborted at Planned" + part,
		},
		"I8: the deadline has passed": {
			in:   set(late),
			want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: "RollingBack DeadlineExceeded at Planned, attempt 1, round 1, generation 0, replicas 3, due in 12m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next)
		})
	}
}
