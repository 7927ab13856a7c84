package backup

import (
	"math"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// TestReportOfAnOlderMoverKeepsProgress: during an upgrade, movers of the former version run on. Their reports have no total.
func TestReportOfAnOlderMoverKeepsProgress(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
	member := &w.record.Members[0]
	w.storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultConverged,
		Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 40, Files: 3}}})
	if m := member.Claims[0]; m.BytesDone != 40 || m.BytesTotal != 40 {
		t.Errorf("first passes: %d of %d", m.BytesDone, m.BytesTotal)
	}
	w.storeReport(member, &moverreport.MemberReport{Result: moverreport.ResultCopied,
		Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 2, Files: 3, Digest: "d"}}})
	if m := member.Claims[0]; m.BytesDone != 40 || m.BytesTotal != 40 || m.BytesFinal != 2 {
		t.Errorf("final pass: %d of %d, final %d", m.BytesDone, m.BytesTotal, m.BytesFinal)
	}
}

// TestForgedProgressIsBounded: a tenant who may exec into the mover writes into its log. The sum over claims must not overflow.
func TestForgedProgressIsBounded(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0, logs0)))
	member := &w.record.Members[0]
	for _, claim := range []string{"data", "logs"} {
		member.ProgressAt = nil
		w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseCopy, Claim: claim, BytesDone: math.MaxInt64,
			BytesTotal: math.MaxInt64}}
		w.storeProgress(member)
	}
	if sum := member.Claims[0].BytesDone + member.Claims[1].BytesDone; sum < 0 {
		t.Errorf("the sum is %d", sum)
	}
}
