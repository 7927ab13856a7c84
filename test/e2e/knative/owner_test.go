//go:build cluster

package knative

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestOwnerIsPausedAndResumed: with only the rights of `kubectl drydock rbac`, pause-owner pauses the custom resource
// that controls the set, and restores it.
// Invariants: I5.
func TestOwnerIsPausedAndResumed(t *testing.T) {
	k := setUp(t)
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	k.DefineKind(row, kind)
	k.Kubectl(t, k.plugin(t, "rbac", "--owners", row.Operator), "apply", "-f", "-")
	t.Cleanup(func() { k.RevokePause(row.Operator) })
	k.GrantPause(row.Operator) // waits until the rights are in force
	owner := k.CreateCustom(row, kind, "main", map[string]any{"paused": false}, nil)
	t.Cleanup(func() { k.OrphanCustom(row, kind, "main") })
	k.CreateSet(stage.Workload("64Mi"))
	k.SetController("web", owner)
	before := k.Data(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	k.AwaitPhase(t, api.Moving)
	if now := k.Custom(row, kind, "main"); !row.Paused(now) {
		t.Errorf("the set is being stopped, and its owner is not paused: %v", now.Object)
	}
	k.ExpectResized(t, before)
	k.Eventually("the owner is as before", func() string {
		if now := k.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) != 0 {
			return "it is paused"
		}
		return ""
	})
}
