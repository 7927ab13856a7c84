package restore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestFailingDryRunStopsNoSetForADay: the webhook for claims does not answer (failurePolicy Fail), so the API server answers 500 to the
// dry run before the first deletion of a rollback. Nothing was changed. DRYDOCK_SWAP_TIMEOUT (15m) has passed, and DRYDOCK_COPY_TIMEOUT
// (24h) has not. A refusal (403) ends the rollback here, and so must a failure: all members are down.
func TestFailingDryRunStopsNoSetForADay(t *testing.T) {
	late := func(r *api.Resize) {
		for i := range r.Members {
			r.Members[i].Deadline = &metav1.Time{Time: build.Now.Add(-time.Hour)}
		}
	}
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), late,
		func(r *api.Resize) { r.Strategy = api.StrategyWhole }, build.Due(20*time.Hour))
	in := situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
		source(web0), returning(web0), source(web1), returning(web1))
	in.WriteFailed = `Internal error occurred: failed calling webhook "claims.policies.example": context deadline exceeded`
	if p := Decide(in); p.Kind != plan.KindDo || p.Reason == api.SwapRunning {
		t.Errorf("all members stay stopped on their unchanged claims: %s", p)
	}
	if p := Decide(with(in, func(in *Input) { in.Rejected, in.WriteFailed = in.WriteFailed, "" })); p.Reason != api.Rejected {
		t.Errorf("a refusal does not end the rollback either: %s", p)
	}
}
