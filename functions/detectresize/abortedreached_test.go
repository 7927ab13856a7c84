package detectresize

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestVolumeOfAbortedExpansionIsNoSuccess: the user aborted an expansion to 1Ti, so the claims request what the volumes had (plus one
// byte). The storage finished 1Ti nevertheless. Then the user requests 128Mi. As in TestSizeWithdrawnByAbortIsNoSuccess, where the storage
// finishes a little later, volumes of 1Ti are no success.
func TestVolumeOfAbortedExpansionIsNoSuccess(t *testing.T) {
	aborted := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=1Ti", api.Aborted, api.Expanding
		for _, name := range []string{"data-web-0", "data-web-1"} {
			r.Expansions = append(r.Expansions, api.Expansion{Claim: name, UID: types.UID("uid-" + name), Template: "data",
				Volume: "pv-" + name, From: resource.MustParse("64Mi"), To: resource.MustParse("1Ti")})
		}
	})
	counts := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2)}
	both := func(requested string) objects {
		return append(expandable("data-web-0", requested, "1Ti"), expandable("data-web-1", requested, "1Ti")...)
	}
	record, requested := aborted, "67108865"
	for range 4 {
		p := Decide(given(expandableSet(record, counts...), both(requested), pods()))
		t.Log(p)
		if p.Reason == api.ResizeCompleted {
			t.Fatalf("the resize to 128Mi has succeeded, and the volumes have 1Ti: %s", p)
		}
		next := build.Stored(p)
		switch {
		case next == nil && p.Reason == api.ExpansionRunning:
			requested = "128Mi"
		case next == nil || next.Phase != api.Expanding:
			return // it copies, refuses, or raises the requests first
		default:
			record = next
			keepsTemplates(record)
		}
	}
}
