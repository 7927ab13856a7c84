//go:build cluster

package operators

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestNothingCopiedStays: the operator copies annotations of its resource to the StatefulSet. After the end of a pause or a stop, the
// StatefulSet has no copy of Drydock's record about it.
func TestNothingCopiedStays(t *testing.T) {
	each(t, func(k kind) bool { return k.copies }, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		w.sleep()
		w.stays("the set sleeps", held, w.asleep)
		if w.resource().GetAnnotations()[api.OwnerPausedAnnotation] == "" {
			t.Error("the resource has no record that an operator could copy")
		}
		w.wake()
		w.becomes("the set has no record", func() string {
			if record := w.set().Annotations[api.OwnerPausedAnnotation]; record != "" {
				return record
			}
			return w.ready()
		})
	})
}
