package restore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestBegunRollbackIsNotGivenUpAfterOneFailure: a rollback of all members together has deleted the claim of web-0, so web-1 must follow and
// cannot start on its unchanged claim (mustFollowRollback). The functions were down, so the deadline has passed; then one write fails.
func TestBegunRollbackIsNotGivenUpAfterOneFailure(t *testing.T) {
	late := func(r *api.Resize) {
		for i := range r.Members {
			r.Members[i].Deadline = &metav1.Time{Time: build.Now.Add(-time.Second)}
		}
	}
	world := func(phase api.Phase) Input {
		whole := rollingBack(phase, build.Members(api.MemberSwapping, web0, web1), late,
			func(r *api.Resize) { r.Strategy = api.StrategyWhole }, build.Due(20*time.Hour))
		return situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))), source(web1), returning(web1))
	}
	in := world(api.Moving)
	in.WriteFailed = "Internal error occurred: failed calling webhook: connection refused"
	p := Decide(in)
	if p.Reason == api.DeadlineExceeded && deletesClaim(Decide(world(api.Reverting)).Actions) {
		t.Errorf("the rollback is given up and reported as failed, and then completed all the same:\n%s\n%s", p, Decide(world(api.Reverting)))
	}
}
