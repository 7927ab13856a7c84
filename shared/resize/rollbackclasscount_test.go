package resize

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRollbackAwayFromClosedClassIsAllowed: a resize moved the claims from class fixed to class fast. Then the administrator closed class
// fast with a quota of zero claims, or of fewer than exist. A rollback deletes the claims of class fast and creates claims of class fixed.
// The quota on fast refuses none of that, so the rollback must not be refused.
func TestRollbackAwayFromClosedClassIsAllowed(t *testing.T) {
	present := func(name string) objects { return claim(name, "fast", "128Mi") }
	in := input(resizedSet(), present("data-web-0"), present("data-web-1"), oldVolume("pv-old-0", "data-web-0", "64Mi"),
		oldVolume("pv-old-1", "data-web-1", "64Mi"))
	w := Rollback(in, build.ID)
	if got := reasons(slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))); got != "" {
		t.Fatalf("without a quota: %s", got)
	}
	in = quota(in, corev1.ResourceName("fast.storageclass.storage.k8s.io/persistentvolumeclaims"), "0", "2")
	w = Rollback(in, build.ID)
	if found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID)); reasons(found) == string(api.QuotaExceeded) {
		t.Errorf("the rollback needs no claim of class fast: %v", found)
	}
}
