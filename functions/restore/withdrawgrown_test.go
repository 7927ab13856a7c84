package restore

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

// TestOfflineGrowthToWithdrawnSizeIsNoSuccess: the claim requested 1Ti, which the driver could not give an attached volume. The user
// requests 128Mi offline. As soon as the volume is detached, the external resizer carries out the 1Ti, which it had begun.
func TestOfflineGrowthToWithdrawnSizeIsNoSuccess(t *testing.T) {
	withdraws := func(r *api.Resize) { r.Move(web2).Withdraws = resource.MustParse("1Ti") }
	p := Decide(situation(growingLastOfThree(api.MemberGrowing, claimOfSize(web2, "128Mi", "64Mi", pending(), infeasible("1Ti", "")),
		heldSince(time.Minute), withdraws), append(heldPodOf(2, unmounted()), otherMembers()...)))
	if p.Reason != api.ClaimEnlarged {
		t.Errorf("the member counts as grown to 128Mi, and its volume has 1Ti: %s", p)
	}
}
