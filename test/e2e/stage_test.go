//go:build cluster

package e2e

import (
	"os/exec"
	"testing"

	"drydock.dev/test/kit/stage"
)

// drydock starts drydock-standalone for this stage. It ends with the test, or before.
func drydock(t testing.TB, s *stage.Stage, args ...string) *exec.Cmd {
	t.Helper()
	return s.StartDrydock(t, nil, args...)
}
