package detectresize

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestEnlargedMessageIsTrue: the storage finishes 256Mi, so the claim, which requests 1Ti, can no longer request 128Mi.
func TestEnlargedMessageIsTrue(t *testing.T) {
	withdraws := func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	p := Decide(given(expandableSet(expanding(keepsTemplates, withdraws)), expandable("data-web-0", "1Ti", "256Mi"),
		expandable("data-web-1", "1Ti", "256Mi"), pods()))
	if m := build.Stored(p).Message; strings.Contains(m, "grown to 1Ti") {
		t.Errorf("the volume has 256Mi, and its claim never requested 128Mi: %s", m)
	}
}

// TestRejectedRaiseSaysSo: the API server rejects the request that should match the grown volume, for example by a quota.
func TestRejectedRaiseSaysSo(t *testing.T) {
	withdraws := func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	in := given(expandableSet(expanding(keepsTemplates, withdraws, failedBecause(api.ClaimEnlarged))),
		expandable("data-web-0", "128Mi", "1Ti"),
		expandable("data-web-1", "128Mi", "1Ti"), pods())
	in.Rejected = "exceeded quota"
	p := Decide(in)
	if m := build.Stored(p).Message; strings.Contains(m, "still request it") {
		t.Errorf("the claims request 128Mi: %s", m)
	}
}
