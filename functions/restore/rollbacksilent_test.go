package restore

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRefusedDryRunOfRollbackSaysSo: all members are stopped, and the API server refuses the dry run of a claim on its old volume. No claim
// was deleted. Either the members start again at once, or the record says why the set stays stopped until the deadline of the swap.
func TestRefusedDryRunOfRollbackSaysSo(t *testing.T) {
	record := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), build.MemberDue(0, time.Hour),
		build.MemberDue(1, time.Hour), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	in := situation(append(setWith(record, build.Replicas(2)), build.Journal(record)), heldPodOf(0), heldPodOf(1), source(web0),
		returning(web0), source(web1), returning(web1))
	in.Rejected = "policy retain-class denies claim data-web-0"
	if p := Decide(in); build.Stored(p) == nil {
		t.Errorf("the set is stopped, and its record does not say why: %s", p)
	}
}
