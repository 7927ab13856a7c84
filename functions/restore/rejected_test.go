package restore

import (
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

const rejection = `admission webhook "primary.example.com" denied the request`

// TestRejectedHoldEndsTheResize: all members stop together, and the API server rejects the finalizer on web-0. Member 1 has stopped
// already, and must not stay so until the deadline of the whole operation.
func TestRejectedHoldEndsTheResize(t *testing.T) {
	for name, row := range map[string]struct {
		due  time.Duration
		ends bool
	}{"the stop of web-0 is late": {-time.Minute, true}, "the stop of web-0 has time left": {time.Minute, false}} {
		record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, web1), build.Members(api.MemberStopping, web0),
			build.MemberDue(0, row.due), build.Due(20*time.Hour))
		record.Members[0], record.Members[1] = record.Members[1], record.Members[0]
		in := situation(setWith(record, build.Replicas(2)), journalOf(web0, web1), source(web0), source(web1), target(web0), target(web1),
			pod(0), heldPodOf(1))
		in.Rejected = rejection
		p := Decide(in)
		next := build.Stored(p)
		if ends := next != nil && next.Phase == api.Reverting; ends != row.ends {
			t.Errorf("%s: %s, want an end: %t", name, p, row.ends)
		} else if ends && (next.Reason != api.Rejected || !strings.Contains(next.Message, rejection)) {
			t.Errorf("%s: %s: %s", name, next.Reason, next.Message)
		}
	}
}

// TestRejectedReleaseIsReported: the claims are bound to the new volumes, and the API server rejects the removal of the hold. The record
// says why the pod stays held, once, and the release is tried again.
func TestRejectedReleaseIsReported(t *testing.T) {
	for _, phase := range []api.Phase{api.Moving, api.Reverting} {
		due := map[api.Phase]time.Duration{api.Moving: time.Hour, api.Reverting: -time.Hour}[phase]
		record := build.Operation(phase, build.Members(api.MemberStarting, web0), build.MemberDue(0, -time.Hour), build.Due(due))
		record.Reason, record.Message = api.CopyFailed, "the cause"
		in := situation(setWith(record), journalOf(web0), swappedClaim(web0), heldPodOf(0))
		in.Rejected = rejection
		next := build.Stored(Decide(in))
		if next == nil || !strings.HasPrefix(next.Message, "the cause; pod web-0 stays held, because") ||
			!strings.Contains(next.Message, rejection) {
			t.Fatalf("%s: %s", phase, Decide(in))
		}
		in = situation(setWith(next), journalOf(web0), swappedClaim(web0), heldPodOf(0))
		in.Rejected = rejection
		if p := Decide(in); build.Stored(p) != nil || !strings.Contains(p.String(), "-finalizer hold") {
			t.Errorf("%s: it is reported again, or not tried again: %s", phase, p)
		}
	}
}
