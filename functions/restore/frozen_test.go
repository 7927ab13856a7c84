package restore

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

var frozenSet = build.Label(api.FrozenLabel, "true")

// TestI4SetIsThawedWithTheWriteThatGivesItBack: never in a write of its own while the operation goes on, and at the latest
// with the end.
func TestI4SetIsThawedWithTheWriteThatGivesItBack(t *testing.T) {
	stopped := build.Stopped(time.Minute)
	rolling := func(options ...func(*api.Resize)) *api.Resize {
		return build.Operation(api.RollingBack, append([]func(*api.Resize){stopped, build.Due(time.Minute), func(s *api.Resize) {
			s.FailedAt, s.Reason, s.Message = api.Copying, api.CopyFailed, "no luck"
		}}, options...)...)
	}
	atZero := func(s *api.Resize) { s.Replicas = 0 }
	late := set(with(switchingOf(web0), build.Due(-time.Second)), frozenSet)
	const gaveUp = `do DeadlineExceeded: patch statefulsets web {+status}; event DeadlineExceeded "the switch was given up after 12m0s: ` +
		`claim data-web-0 is held by another finalizer of [drydock.dev/switch example.com/backup]. No data is lost, every volume is kept; ` +
		`the set stays at zero. Mend the cause, then go on with the annotation drydock.dev/retry" -> operation.failed`
	check(t, map[string]row{
		"started on its new volumes": {
			in:   world(set(switchingOf(web0), frozenSet), journalOf(web0), switched(web0)),
			want: `do ClaimsSwitched: patch statefulsets web {replicas 0 to 3, -label frozen, +status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 30m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"rolled back": {
			in:   world(set(rolling(), frozenSet), journalOf(web0)),
			want: "do RollingBack: patch statefulsets web {replicas 0 to 3, -label frozen}",
		},
		"rolled back to zero, where it was before: with the end": {
			in:   world(set(rolling(atZero), frozenSet)),
			want: `do CopyFailed: patch statefulsets web {+status, -label frozen}; event CopyFailed "no luck" -> operation.failed`,
			next: "Failed CopyFailed at Copying, attempt 1, round 1, generation 0, replicas 0",
		},
		"somebody has scaled it up before it was rolled back: with the end": {
			in:   world(set(rolling(), frozenSet, build.Replicas(3))),
			want: `do CopyFailed: patch statefulsets web {+status, -label frozen}; event CopyFailed "no luck" -> operation.failed`,
			next: "Failed CopyFailed at Copying, attempt 1, round 1, generation 0, replicas 3",
		},
		"given up in the middle of the switch: it stays frozen": {
			in:   waited(world(late, journalOf(web0), doomed(web0, "example.com/backup"), copied(web0))),
			want: gaveUp,
			next: "Failed DeadlineExceeded at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0",
		},
		"somebody thawed it and scaled it up during the switch: it is frozen again with the stop": {
			in:   world(set(switchingOf(web0), build.Replicas(2)), journalOf(web0), doomed(web0, "kubernetes.io/pvc-protection"), copied(web0)),
			want: "do SwitchRunning: patch statefulsets web {replicas to 0, +label frozen}",
		},
		"somebody only thawed it: that is no reason to write": {
			in:   world(set(switchingOf(web0)), journalOf(web0), doomed(web0, "kubernetes.io/pvc-protection"), copied(web0)),
			want: "wait SwitchRunning (claim data-web-0 is held by another finalizer of [drydock.dev/switch kubernetes.io/pvc-protection])",
		},
	})
}

// TestI9NoSetStaysFrozenForNothing is about sets of which no operation tells why.
func TestI9NoSetStaysFrozenForNothing(t *testing.T) {
	const thaw = "do CleaningUp: patch statefulsets web {-label frozen}"
	held := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Switching })
	data := build.Template("data", "64Mi", "fixed")
	over := objects{retired(web0, "2026-03-01T11:59:59Z")}
	check(t, map[string]row{
		"without status":                          {in: world(objects{build.Set("web", frozenSet)}), want: thaw},
		"before an old volume is released":        {in: world(objects{build.Set("web", frozenSet)}, over), want: thaw},
		"the operation has ended":                 {in: world(set(build.Operation(api.Succeeded), frozenSet)), want: thaw},
		"it was refused":                          {in: world(set(build.Operation(api.Refused), frozenSet)), want: thaw},
		"I3: the status is of the set it is from": {in: world(set(build.Operation(api.Copying), frozenSet, build.UID("uid-2"))), want: thaw},
		"held":                 {in: world(set(held, frozenSet)), want: "noop NotOurPhase"},
		"planned":              {in: world(set(build.Operation(api.Planned), frozenSet)), want: "noop NotOurPhase"},
		"copying":              {in: world(set(build.Operation(api.Copying), frozenSet), journalOf(web0), source(web0)), want: "noop NotOurPhase"},
		"it goes":              {in: world(objects{build.Set("web", frozenSet, build.Deleting())}), want: "noop NotOurPhase"},
		"I7: it is not frozen": {in: world(objects{build.Set("web")}), want: "noop NotOurPhase"},
		"I4: it lost its status while it was stopped: its replicas come back": {
			in:   world(objects{build.Set("web", zero, data, frozenSet)}, journalOf(web0), source(web0)),
			want: "do SetReplaced: patch statefulsets web {replicas 0 to 3, -label frozen}",
		},
		"I4: so they do if it was created again in between": {
			in:   world(objects{build.Set("web", zero, data, frozenSet, build.UID("uid-2"))}, journalOf(web0), source(web0)),
			want: "do SetReplaced: patch statefulsets web {replicas 0 to 3, -label frozen}",
		},
		"it lost its status, and somebody has started it": {
			in:   world(objects{build.Set("web", build.Replicas(1), data, frozenSet)}, journalOf(web0), source(web0)),
			want: "do SetReplaced: patch statefulsets web {-label frozen}",
		},
	})
}

// TestI4RecreatedSetIsFrozenFromTheStart: nobody can scale it up before we look at it.
func TestI4RecreatedSetIsFrozenFromTheStart(t *testing.T) {
	smaller := objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"), build.Status(with(switchingOf(web0), recreating)))}
	p := Decide(world(smaller, journalOf(web0), source(web0), target(web0)))
	if !strings.Contains(p.String(), "{+recreate, +set-metadata}") || len(p.Actions) != 1 {
		t.Fatal(p)
	}
	for _, op := range p.Actions[0].Ops {
		if text, ok := op.Value.(string); ok && strings.Contains(text, `"drydock.dev/frozen":"true"`) {
			return
		}
	}
	t.Errorf("the order is %v", p.Actions[0].Ops)
}
