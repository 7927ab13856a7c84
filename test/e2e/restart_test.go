//go:build cluster

package e2e

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestNodeAgentsAndControllersRestartWhileMemberIsHeld: the controllers, the container runtime and the kubelet are
// killed and started again while a pod ends, is held, and its mover waits. No other test runs in parallel, because it
// would need them.
func TestNodeAgentsAndControllersRestartWhileMemberIsHeld(t *testing.T) {
	s := newAcks(t, stage.WithSlowStop(4, acksSet(2, api.StrategyRolling)))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.awaitHeld()
	for _, name := range []string{"kube-controller-manager", "containerd", "kubelet"} {
		s.RestartComponent(t, name)
	}
	s.expectMovedTo(t, "160Mi")
}
