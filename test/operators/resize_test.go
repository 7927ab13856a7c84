//go:build cluster

package operators

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// method is a way to give volumes another size than 1Gi.
type method struct {
	name     string
	class    string // of the volumes
	size     string
	restarts int // of each pod
}

var methods = []method{
	{"grow in place", kit.GrowingClass, "2Gi", 0},
	{"grow by copy", kit.Class, "2Gi", 1},
	{"shrink by copy", kit.Class, "512Mi", 1},
}

// eachMethod runs the test for each kind and method.
func eachMethod(t *testing.T, test func(*testing.T, *world, method)) {
	t.Helper()
	each(t, resizable, func(t *testing.T, k kind) {
		for _, m := range methods {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				test(t, newManagedWorld(t, k, m.class), m)
			})
		}
	})
}

// request asks for the new size, as the user of the StatefulSet does.
func (w *world) request(m method) {
	w.t.Helper()
	w.Expect(http.StatusForbidden, api.Restore, "the new set may not block the deletion of its owner")
	w.Annotate(w.kind.set, map[string]string{api.ResizeAnnotation: w.kind.template + "=" + m.size})
}

// paused reports whether Drydock has paused the operator.
func (w *world) paused() bool {
	w.t.Helper()
	o := w.resource()
	return o != nil && w.row.Held(owners.ByPause, o)
}

// resized returns an empty text if the StatefulSet's template and claims have the new size.
func (w *world) resized(m method) string {
	w.t.Helper()
	set := w.set()
	if set == nil {
		return "there is no StatefulSet"
	}
	for _, t := range set.Spec.VolumeClaimTemplates {
		if is := t.Spec.Resources.Requests.Storage().String(); t.Name == w.kind.template && is != m.size {
			return "the StatefulSet's template has " + is
		}
	}
	for _, name := range w.claims() {
		claim := w.Claim(name)
		if claim == nil {
			return "there is no claim " + name
		}
		if is := claim.Status.Capacity.Storage().String(); is != m.size {
			return fmt.Sprintf("claim %s has %s", name, is)
		}
	}
	return ""
}

// expectRestarts checks how often each pod was replaced since the world began.
func (w *world) expectRestarts(m method) {
	w.t.Helper()
	var want []string
	for i := range w.kind.replicas {
		want = append(want, fmt.Sprintf("%s-%d: %d", w.kind.set, i, m.restarts))
	}
	if got := w.restarts.String(); got != strings.Join(want, ", ") {
		w.t.Errorf("pods were replaced: %s; want %s", got, strings.Join(want, ", "))
	}
}

// expectCalm checks that the resumed operator leaves set and pods alone, with volumes of the new size, and that each pod was replaced as
// often in all. An operator that replaces a set does so within a second.
func (w *world) expectCalm(m method) {
	w.t.Helper()
	before := w.identity()
	w.stays("the set and its pods stay", held, func() string {
		if now := w.identity(); now != before {
			return now + ", before: " + before
		}
		return w.resized(m)
	})
	w.expectRestarts(m)
	for _, problem := range w.ClaimProblems(w.claims()...) {
		w.t.Error(problem)
	}
}

// wanted returns the content that the resource has with the new size.
func (w *world) wanted(m method) map[string]any {
	w.t.Helper()
	return w.contentAfter(fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, w.kind.size, m.size))
}

// TestResizeWithChangeInPause: the user gives the resource the new size while its operator is paused. Then the operator agrees with the
// set, and leaves it alone.
// Invariants: I1, I5.
func TestResizeWithChangeInPause(t *testing.T) {
	eachMethod(t, func(t *testing.T, w *world, m method) {
		want, changed := w.wanted(m), false
		w.drive.OnEvent = func(event.Event) {
			if !changed && w.paused() {
				w.setSize(m.size)
				changed = true
			}
		}
		w.request(m)
		if status := w.Finish(w.drive, w.kind.set); status.Phase != api.Succeeded || !changed {
			t.Fatalf("%s: %s: %s; the resource was changed in the pause: %t", status.Phase, status.Reason, status.Message, changed)
		}
		w.becomes("the resource is resumed, and has the new size", func() string { return w.left(want) })
		w.expectCalm(m)
	})
}
