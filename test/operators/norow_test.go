//go:build cluster

package operators

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestOperatorWithoutRow: Drydock does not stop a set whose operator it cannot pause, and says so. If its user takes the responsibility,
// Drydock puts the set to sleep beside the operator.
// Invariants: I5.
func TestOperatorWithoutRow(t *testing.T) {
	each(t, func(k kind) bool { return k.operator == zookeeperOperator }, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		want := w.content()
		w.Annotate(k.set, map[string]string{api.PausedAnnotation: "true"})
		sleep := w.UntilSleep(w.drive, k.set, api.Refused)
		if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, k.name) {
			t.Errorf("%s: %s", sleep.Reason, sleep.Message)
		}
		w.stays("the set runs", held, w.ready)
		w.Annotate(k.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore), api.RetryAnnotation: "now"})
		w.UntilSleep(w.drive, k.set, api.Asleep)
		w.wake()
		w.becomes("the set runs, and its resource is unchanged", func() string { return w.left(want) })
	})
}
