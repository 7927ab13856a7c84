package restore

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestForeignPodSeenInFinalPassMakesCopyStale: the final pass of a member without a pod copies everything and may take hours. Then
// another pod, such as that of a CronJob, uses the claim, writes to files that the mover has verified, ends, and is deleted. Drydock has
// seen it. The record has to keep that, as docs/decisions/2026-11-23-hold.md says: otherwise the swap discards the pod's writes.
func TestForeignPodSeenInFinalPassMakesCopyStale(t *testing.T) {
	foreign := objects{build.Pod("nightly-report", []string{web0}, onNode)}
	final := onlyMember(api.MemberFinalPass, build.MemberDue(0, time.Hour))
	p := Decide(situation(final, heldPodOf(0), foreign))
	if next := build.Stored(p); next == nil || next.Members[0].StoppedAt != nil && next.Members[0].Phase == api.MemberFinalPass {
		t.Errorf("pod nightly-report may write to claim %s, and the record does not keep that: %s", web0, p)
	}
}
