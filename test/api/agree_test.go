//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// sizeOfPrometheus is where a Prometheus has the size of its claims.
var sizeOfPrometheus = []string{"spec", "storage", "volumeClaimTemplate", "spec", "resources", "requests", "storage"}

// disagreeingWorld returns a world in which a resize has changed the claims from 64Mi to 128Mi, and the set's Prometheus says 64Mi.
func disagreeingWorld(t *testing.T, annotations map[string]string) (*kit.World, *kit.Drive, owners.Row) {
	t.Helper()
	w, row := ownedWorld(t)
	setSize(w, row, "64Mi")
	if annotations != nil {
		w.Annotate("web", annotations)
	}
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	return w, drive, row
}

func setSize(w *kit.World, row owners.Row, size string) {
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, size, sizeOfPrometheus...)
	})
}

func sizeOf(w *kit.World, row owners.Row) string {
	size, _, _ := unstructured.NestedString(w.Custom(row, "Prometheus", "main").Object, sizeOfPrometheus...)
	return size
}

// TestOwnerStaysPausedUntilItHasTheNewSize: its operator would create the set again with the former template.
// Invariants: I5.
func TestOwnerStaysPausedUntilItHasTheNewSize(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t, nil)
	for range 5 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !row.Paused(w.Custom(row, "Prometheus", "main")) {
			t.Fatal("the pause has ended, and the owner still says the former size")
		}
	}
	const words = "is 64Mi, and the claims have 128Mi"
	if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, words) {
		t.Errorf("the record says %q", problem)
	}
	setSize(w, row, "128Mi")
	before := content(w.Custom(row, "Prometheus", "main"))
	before["spec"].(map[string]any)["paused"] = false
	before["annotations"] = map[string]string(nil)
	expectResumed(t, w, drive, row, "Prometheus", before)
	if problem := w.Status("web").OwnerProblem; problem != "" {
		t.Errorf("the record still says %q", problem)
	}
}

// TestOwnerGetsTheNewSizeFromDrydock: with the policy update, no user has to act. With ignore, the pause ends as it is.
// Invariants: I5.
func TestOwnerGetsTheNewSizeFromDrydock(t *testing.T) {
	t.Parallel()
	for policy, size := range map[api.OwnerPolicy]string{api.OwnerUpdate: "128Mi", api.OwnerIgnore: "64Mi"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, drive, row := disagreeingWorld(t, nil)
			w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(policy)})
			w.Eventually("the pause ends", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if row.Paused(w.Custom(row, "Prometheus", "main")) {
					return "it is paused"
				}
				return strings.Join(w.Leftovers(), ", ")
			})
			if got := sizeOf(w, row); got != size {
				t.Errorf("the owner says %s, want %s", got, size)
			}
		})
	}
}
