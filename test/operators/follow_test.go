//go:build cluster

package operators

import (
	"fmt"
	"testing"

	"drydock.dev/shared/api"
)

// newFollowingWorld is newWorld with a resource that has the label to opt in. If its claims follow it, it also has the annotation.
func newFollowingWorld(t *testing.T, k kind, class string, follows bool) *world {
	t.Helper()
	w := newWorld(t, k, class)
	patch := `{"op":"add","path":"/metadata/labels/drydock.dev~1managed","value":"true"}`
	if follows {
		patch += fmt.Sprintf(`,{"op":"add","path":"/metadata/annotations/drydock.dev~1templates","value":%q}`, api.TemplatesOwner)
	}
	w.patchResource("[" + patch + "]")
	w.Eventually("the operator has copied label and annotation to the StatefulSet", func() string {
		if set := w.set(); set == nil || set.Labels[api.ManagedLabel] == "" || (set.Annotations[api.TemplatesAnnotation] != "") != follows {
			return "it has not"
		}
		return w.ready()
	})
	return w
}

// eachReplacing runs the test for each method and each kind whose operator replaces the set when the size in its resource changes.
func eachReplacing(t *testing.T, test func(*testing.T, kind, method)) {
	t.Helper()
	each(t, func(k kind) bool { return k.replaces && k.copies && resizable(k) }, func(t *testing.T, k kind) {
		for _, m := range methods {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				test(t, k, m)
			})
		}
	})
}

// editSize changes the size in the resource, and waits until its operator has created the set again.
func (w *world) editSize(size string) {
	w.t.Helper()
	former := w.set().UID
	w.setSize(size)
	w.Eventually("the operator has created the set again", func() string {
		if set := w.set(); set == nil || set.UID == former {
			return "it has not"
		}
		return ""
	})
}

// TestClaimsFollowResource: a user edits the size in the resource. Its operator creates the set again, which stops all pods once. The
// claims get the size, and the operator leaves the set alone afterwards. A growth in place stops nothing more, and a copy stops each pod
// once.
// Invariants: I1, I5.
func TestClaimsFollowResource(t *testing.T) {
	eachReplacing(t, func(t *testing.T, k kind, m method) {
		w := newFollowingWorld(t, k, m.class, true)
		want := w.wanted(m)
		w.editSize(m.size)
		w.becomes("the claims have the size of the resource", func() string {
			if problem := w.resized(m); problem != "" {
				return problem
			}
			return w.left(want)
		})
		if status := w.Status(k.set); status == nil || status.Phase != api.Succeeded || status.ReplaceSet {
			t.Errorf("%+v", status)
		}
		m.restarts++ // by the operator
		w.expectCalm(m)
	})
}

// TestClaimsFollowNoResourceByDefault is the twin of TestClaimsFollowResource.
func TestClaimsFollowNoResourceByDefault(t *testing.T) {
	eachReplacing(t, func(t *testing.T, k kind, m method) {
		w := newFollowingWorld(t, k, m.class, false)
		w.editSize(m.size)
		w.becomes("the set runs", w.ready)
		w.stays("the claims keep their size", held, func() string {
			for _, name := range w.claims() {
				if is := w.Claim(name).Status.Capacity.Storage().String(); is != "1Gi" {
					return fmt.Sprintf("claim %s has %s", name, is)
				}
			}
			if status := w.Status(k.set); status != nil {
				return fmt.Sprintf("%+v", status)
			}
			return w.ready()
		})
	})
}
