//go:build cluster

package e2e

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestHeldMemberIsForceDeletedAndAnotherOneDies: the held pod is deleted by force during its stop, and the process of
// another member dies at the same time.
func TestHeldMemberIsForceDeletedAndAnotherOneDies(t *testing.T) {
	t.Parallel()
	s := newAcks(t, stage.WithSlowStop(4, acksSet(2, api.StrategyRolling)))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ForceDeletePod(s.awaitHeld())
	s.crash("web-0") // the highest ordinal is held first
	s.expectMovedTo(t, "160Mi")
}
