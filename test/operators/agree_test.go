//go:build cluster

package operators

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// waits is how long a test watches that a pause lasts.
const waits = time.Minute

// expectPauseHolds resizes the volumes while the resource keeps its size. The pause lasts, and nothing happens to the set.
func expectPauseHolds(w *world, m method) {
	w.t.Helper()
	w.request(m)
	w.becomes("the volumes have the new size, and all pods run", func() string {
		if problem := w.resized(m); problem != "" {
			return problem
		}
		return w.ready()
	})
	before := w.identity()
	w.stays("the operator is paused, and leaves the set alone", waits, func() string {
		if !w.paused() {
			return "the operator is resumed"
		}
		if now := w.identity(); now != before {
			return now + ", before: " + before
		}
		return w.resized(m)
	})
	w.expectRestarts(m)
}

// TestPauseLastsUntilResourceAgrees: the pause of a resize ends when the user has given the resource the size of the set. Then the operator
// has no reason to replace the set.
// Invariants: I1, I5.
func TestPauseLastsUntilResourceAgrees(t *testing.T) {
	eachMethod(t, func(t *testing.T, w *world, m method) {
		want := w.wanted(m)
		expectPauseHolds(w, m)
		w.setSize(m.size)
		w.becomes("the operator is resumed", func() string { return w.left(want) })
		w.expectCalm(m)
		if status := w.Status(w.kind.set); status == nil || status.Phase != api.Succeeded {
			t.Errorf("%+v", status)
		}
	})
}

// TestIgnoringOwnerEndsPause: the user decides that the pause ends, although the resource has another size. Some operators then replace the
// set, so this is the control for the tests of a pause that lasts.
// Invariants: I5.
func TestIgnoringOwnerEndsPause(t *testing.T) {
	eachMethod(t, func(_ *testing.T, w *world, m method) {
		want := w.content()
		expectPauseHolds(w, m)
		uid := w.set().UID
		w.Annotate(w.kind.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
		w.becomes("the operator is resumed", func() string { return w.asWritten(want) })
		w.becomes("the operator has replaced the set if it is one that does", func() string {
			if set := w.set(); w.kind.replaces && (set == nil || set.UID == uid) {
				return "it has not"
			}
			return ""
		})
	})
}

// TestDrydockUpdatesResource: Drydock gives the resource the size of the set, and changes nothing else of it.
// Invariants: I1, I5.
func TestDrydockUpdatesResource(t *testing.T) {
	eachMethod(t, func(t *testing.T, w *world, m method) {
		want := w.wanted(m)
		w.Annotate(w.kind.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerUpdate)})
		w.request(m)
		w.becomes("the resize has succeeded", func() string {
			if status := w.Status(w.kind.set); status == nil || status.Phase != api.Succeeded {
				return fmt.Sprintf("%+v", status)
			}
			return w.left(want)
		})
		w.expectCalm(m)
	})
}

// TestRequestOnResourceIsRefused: the operator copies label and request from the resource to each StatefulSet that it creates. If Drydock
// replaced the set, and the operator after it, that would never end.
func TestRequestOnResourceIsRefused(t *testing.T) {
	each(t, func(k kind) bool { return k.copies && !k.intoPods }, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		before := w.identity()
		w.patchResource(fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/drydock.dev~1managed","value":"true"},
			{"op":"add","path":"/metadata/annotations/drydock.dev~1resize","value":"%s=2Gi"}]`, k.template))
		w.becomes("the request is refused", func() string {
			status := w.Status(k.set)
			if status == nil || status.Phase != api.Failed || !strings.Contains(status.Message, k.name+" main") {
				return fmt.Sprintf("%+v", status)
			}
			return ""
		})
		w.stays("the set and its pods stay, and the operator works", held, func() string {
			if now := w.identity(); now != before || w.paused() {
				return fmt.Sprintf("%s, before: %s, paused %t", now, before, w.paused())
			}
			return ""
		})
	})
}
