package restore

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestMaxStopHoldsBesideUnwantedMember: member 0 runs, and only a claim is left of member 1. Member 0 is down until both are copied, so
// max-stop limits the copy of member 1 too. If the set is at zero, nothing is down.
func TestMaxStopHoldsBesideUnwantedMember(t *testing.T) {
	for replicas, want := range map[int32]time.Duration{1: 2 * time.Minute, 0: 24 * time.Hour} {
		record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0), build.Members(api.MemberStopping, web1),
			build.MemberDue(0, time.Hour), build.MemberDue(1, time.Hour), build.Due(24*time.Hour),
			build.EditMember(1, func(m *api.Member) { m.Locked, m.Pod, m.Node, m.StoppedAt = true, "", "", nil }))
		in := situation(setWith(record, build.Replicas(replicas), build.Annotation(api.MaxStopAnnotation, "1m")), journalOf(web0, web1),
			swappedClaim(web0), heldPodOf(0), lock(1), source(web1), target(web1))
		next := build.Stored(Decide(in))
		if next == nil || next.Member(1).Phase != api.MemberFinalPass || next.Member(1).Deadline.Sub(in.Now) != want {
			t.Errorf("%d replicas: %s, want a deadline in %s", replicas, Decide(in), want)
		}
	}
}

// TestMoverOfUnwantedMemberEndsWithItsCopy: the set is at zero, and member 0 waits for the copy of member 1. No pod needs its volumes
// attached, and a ResourceQuota counts the mover.
func TestMoverOfUnwantedMemberEndsWithItsCopy(t *testing.T) {
	for replicas, ends := range map[int32]bool{0: true, 1: false} {
		locked := func(ordinal int) func(*api.Resize) {
			return build.EditMember(ordinal, func(m *api.Member) { m.Locked, m.Pod, m.Node = true, "uid-lock", "" })
		}
		record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0), build.Members(api.MemberFinalPass, web1),
			build.MemberDue(0, time.Hour), build.Due(24*time.Hour), locked(0), locked(1))
		in := situation(setWith(record, build.Replicas(replicas)), journalOf(web0, web1), swappedClaim(web0), lock(0), lock(1), source(web1),
			target(web1), pinMover())
		p := Decide(in)
		if next := build.Stored(p); next != nil { // the claim has moved
			in.Set = build.With(in.Set.DeepCopy(), build.Status(next))
			p = Decide(in)
		}
		if got := strings.Contains(p.String(), "delete jobs"); got != ends {
			t.Errorf("%d replicas: %s, want the Job to be deleted: %t", replicas, p, ends)
		}
	}
}

// TestLeftoverClaimInRollingResizeHasTime: member 0 runs on its new volume already, and the set does not want member 1. No member is down
// while its claim is copied, so max-stop does not matter.
func TestLeftoverClaimInRollingResizeHasTime(t *testing.T) {
	record := build.Operation(api.Moving, build.Rolling, build.Members(api.MemberMoved, web0), build.Members(api.MemberStopping, web1),
		build.MemberDue(1, time.Hour), build.Due(24*time.Hour),
		build.EditMember(1, func(m *api.Member) { m.Locked, m.Pod, m.Node, m.StoppedAt = true, "", "", nil }))
	in := situation(setWith(record, build.Replicas(1)), journalOf(web0, web1), swappedClaim(web0), lock(1), source(web1), target(web1))
	next := build.Stored(Decide(in))
	if next == nil || next.Member(1).Phase != api.MemberFinalPass || next.Member(1).Deadline.Sub(in.Now) != 24*time.Hour {
		t.Errorf("%s: %+v", Decide(in), next)
	}
}
