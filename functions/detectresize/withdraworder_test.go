package detectresize

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// TestWithdrawalComesBeforeGrowth: claim 1 requests 1Ti, which it never got, and claim 0 has 64Mi, because the expansion stopped before it
// or a smaller template made it. Now the user requests 128Mi for both. The namespace's quota has room for the sum, which is all that the
// preflight compares. But nothing is left for claim 0 until claim 1 requests less. If claim 0 comes first, the API server refuses it
// (exceeded quota), and the operation fails with claim 1 at 1Ti. Each retry does the same.
func TestWithdrawalComesBeforeGrowth(t *testing.T) {
	record := expanding(keepsTemplates, func(r *api.Resize) { r.Expansions[1].Withdraws = resource.MustParse("1Ti") })
	p := Decide(given(expandableSet(record), expandable("data-web-0", "64Mi", "64Mi"), expandable("data-web-1", "1Ti", "64Mi"), pods()))
	at := func(claim string) int {
		return slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Claims && a.Name == claim })
	}
	if lowered, raised := at("data-web-1"), at("data-web-0"); lowered < 0 || raised < lowered {
		t.Errorf("the claim that requests less must come first: %s", p)
	}
}
