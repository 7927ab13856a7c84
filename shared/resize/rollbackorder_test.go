package resize

import (
	"slices"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRollingRollbackFitsTheQuotaAtEachMember: 256Mi are used, and the quota was lowered to 160Mi since the resize from 64Mi to 128Mi.
// After a rollback of both members, 128Mi would be used. But a rolling rollback replaces the claim of one member first: 128Mi + 64Mi do
// not fit, so that member stays held.
func TestRollingRollbackFitsTheQuotaAtEachMember(t *testing.T) {
	for strategy, want := range map[api.Strategy]string{api.StrategyRolling: string(api.QuotaExceeded), api.StrategyWhole: ""} {
		in := quota(input(resizedSet(build.Annotation(api.StrategyAnnotation, string(strategy))), currentClaim("data-web-0"),
			currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"), oldVolume("pv-old-1", "data-web-1", "64Mi")),
			"requests.storage", "160Mi", "256Mi")
		w := Rollback(in, build.ID)
		if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != want {
			t.Errorf("%s: problems %q, want %q", strategy, got, want)
		}
	}
}
