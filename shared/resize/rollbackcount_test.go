package resize

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRollbackUnderLoweredClaimCountIsRefused: two claims are used, and since the resize the quota was lowered to one. Kubernetes lets the
// present claims live. A rollback deletes a claim and creates another one, which the quota refuses: the members stay stopped.
func TestRollbackUnderLoweredClaimCountIsRefused(t *testing.T) {
	for _, name := range []corev1.ResourceName{"persistentvolumeclaims", "count/persistentvolumeclaims",
		"fixed.storageclass.storage.k8s.io/persistentvolumeclaims"} {
		for _, strategy := range []api.Strategy{api.StrategyRolling, api.StrategyWhole} {
			in := quota(input(resizedSet(build.Annotation(api.StrategyAnnotation, string(strategy))), currentClaim("data-web-0"),
				currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"), oldVolume("pv-old-1", "data-web-1", "64Mi")),
				name, "1", "2")
			w := Rollback(in, build.ID)
			if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != string(api.QuotaExceeded) {
				t.Errorf("%s, %s: the rollback begins (problems %q), and no claim can be created after its first deletion", strategy, name, got)
			}
		}
	}
}
