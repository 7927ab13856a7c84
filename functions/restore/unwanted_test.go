package restore

import (
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
