//go:build cluster

package operators

import (
	"fmt"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestLabelLasts: the label stays where the table says that it lasts, also when the operator reconciles the set. No pod restarts because
// of it.
func TestLabelLasts(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newWorld(t, k, kit.Class)
		before := w.identity()
		w.optIn()
		w.operator.restart()
		w.stays("the set has opted in", held, func() string {
			if problem := w.managed(); problem != "" {
				return problem
			}
			if now := w.identity(); now != before {
				return "pods were replaced: " + now + ", before: " + before
			}
			return ""
		})
		w.patchResource(k.touch)
		w.becomes("the operator has reconciled the set", func() string {
			if w.identity() == before {
				return "no pod is new"
			}
			return w.ready()
		})
		if problem := w.managed(); problem != "" {
			t.Error(problem)
		}
	})
}

// TestOperatorRemovesLabelOfStatefulSet is why the label belongs on the resource of some operators. Without the label, Drydock does nothing
// to the set.
func TestOperatorRemovesLabelOfStatefulSet(t *testing.T) {
	each(t, func(k kind) bool { return k.removes }, func(t *testing.T, k kind) {
		w := newWorld(t, k, kit.Class)
		if k.hasRow && !w.row.OnResource() {
			t.Error("the table says that the label lasts on the StatefulSet")
		}
		w.PatchSet(k.set, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, api.ManagedLabel))
		w.Eventually("the operator has removed the label", func() string {
			if w.managed() == "" {
				return "it is there"
			}
			return ""
		})
		w.Annotate(k.set, map[string]string{api.PausedAnnotation: "true"})
		w.stays("the set runs", held, w.ready)
	})
}

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
