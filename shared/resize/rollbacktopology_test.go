package resize

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRollbackToUnreachableVolumeIsRefused: the resize moved the set to other nodes. No pod of the set can mount its old volume any more,
// so after a rollback every member stays Pending.
func TestRollbackToUnreachableVolumeIsRefused(t *testing.T) {
	selects := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "b"} })
	in := input(resizedSet(selects), currentClaim("data-web-0"), oldVolume("pv-old-0", "data-web-0", "64Mi", inZone("a")))
	w := Rollback(in, build.ID)
	found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
	if got := reasons(found); got != string(api.TopologyConflict) {
		t.Errorf("the rollback begins (problems %q) and leaves the set without a running pod", got)
	}
}

// TestRollbackBesideVolumeInAnotherZoneIsRefused: data of member 0 would come back in zone a. Its claim logs, which the operation did not
// move, is on a volume in zone b.
func TestRollbackBesideVolumeInAnotherZoneIsRefused(t *testing.T) {
	logs := claim("logs-web-0", "fixed", "64Mi")
	for _, o := range logs {
		if v, ok := o.(*corev1.PersistentVolume); ok {
			inZone("b")(metav1.Object(v))
		}
	}
	in := input(resizedSet(build.Template("logs", "64Mi", "fixed")), currentClaim("data-web-0"), logs,
		oldVolume("pv-old-0", "data-web-0", "64Mi", inZone("a")))
	w := Rollback(in, build.ID)
	found := slices.Concat(w.Problems, PreflightRollback(in, w, build.ID))
	if got := reasons(found); got != string(api.TopologyConflict) {
		t.Errorf("the rollback begins (problems %q) and leaves member 0 without a node", got)
	}
}
