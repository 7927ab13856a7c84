package resize

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRollbackWithoutRoomInQuotaIsRefused: a shrink left old volumes of twice the size. Since then, the quota has been filled or lowered. A
// rollback deletes each claim before it creates the larger one, which the quota then refuses: all members stay stopped, and abort does not
// help.
func TestRollbackWithoutRoomInQuotaIsRefused(t *testing.T) {
	shrunk := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "256Mi"),
			oldVolume("pv-old-1", "data-web-1", "256Mi"))
	}
	ofClass := edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })
	moved := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "128Mi", ofClass))
	}
	for situation, in := range map[string]Input{
		"256Mi are used and allowed, the old claims need 512Mi": quota(shrunk(), "requests.storage", "256Mi", "256Mi"),
		"the former class is forbidden since the move": quota(moved(), "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
			"0", "0"),
		"the former class has no storage any more": quota(moved(), "fast.storageclass.storage.k8s.io/requests.storage", "0", "0"),
	} {
		w := Rollback(in, build.ID)
		found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
		if got := reasons(found); got != string(api.QuotaExceeded) {
			t.Errorf("%s: the rollback begins (problems %q) and stops the set without a way back", situation, got)
		}
	}
}

// TestRollbackFitsTheQuotaOfItsResize: a rollback turns the old volumes into claims, and its API requests fit the quota. The old volumes
// that come back must not count twice, as claims and as retained volumes.
func TestRollbackFitsTheQuotaOfItsResize(t *testing.T) {
	shrunk := func() Input {
		return input(resizedSet(), currentClaim("data-web-0"), currentClaim("data-web-1"), oldVolume("pv-old-0", "data-web-0", "256Mi"),
			oldVolume("pv-old-1", "data-web-1", "256Mi"))
	}
	ofClass := edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" })
	for situation, in := range map[string]Input{
		// the resize had used 512Mi and added 256Mi. Now 256Mi are used; after the rollback 512Mi are, beside 256Mi of old volumes.
		"two shrunk claims, under the quota that the resize needed": quota(shrunk(), "requests.storage", "768Mi", "256Mi"),
		// "Raise the quota for the time of the resize", says QuotaExceeded. The user did, and lowered it again. The rollback adds nothing.
		"a move to another class, and the quota is as before": quota(input(resizedSet(), currentClaim("data-web-0"),
			oldVolume("pv-old-0", "data-web-0", "128Mi", ofClass)), "requests.storage", "128Mi", "128Mi"),
	} {
		w := Rollback(in, build.ID)
		for _, p := range slices.Concat(w.Problems, PreflightRollback(in, w, build.ID)) {
			t.Errorf("%s: the rollback is refused: %s: %s", situation, p.Reason, p.Message)
		}
	}
}
