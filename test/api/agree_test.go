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

// sizeOfMariaDB is where a MariaDB has the size of its claims.
var sizeOfMariaDB = []string{"spec", "storage", "size"}

// disagreeingWorld returns a world in which a resize has changed the claims from 64Mi to 128Mi, and the set's MariaDB says 64Mi.
func disagreeingWorld(t *testing.T) (*kit.World, *kit.Drive, owners.Row) {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "k8s.mariadb.com", "MariaDB")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "MariaDB")
	owner := w.CreateCustom(row, "MariaDB", "main", map[string]any{"suspend": false, "storage": map[string]any{"size": "64Mi"}}, nil)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "storage"))
	w.SetController("web", owner)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "storage=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	return w, drive, row
}

func setSize(w *kit.World, row owners.Row, size string) {
	w.UpdateCustom(row, "MariaDB", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, size, sizeOfMariaDB...)
	})
}

func sizeOf(w *kit.World, row owners.Row) string {
	size, _, _ := unstructured.NestedString(w.Custom(row, "MariaDB", "main").Object, sizeOfMariaDB...)
	return size
}

// TestOwnerStaysPausedUntilItHasTheNewSize: its operator would create the set again with the former template.
// Invariants: I5.
func TestOwnerStaysPausedUntilItHasTheNewSize(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	for range 5 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !row.Paused(w.Custom(row, "MariaDB", "main")) {
			t.Fatal("the pause has ended, and the owner still says the former size")
		}
	}
	if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, disagreement) {
		t.Errorf("the record says %q", problem)
	}
	setSize(w, row, "128Mi")
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	if problem := w.Status("web").OwnerProblem; problem != "" {
		t.Errorf("the record still says %q", problem)
	}
}

// disagreement is in the message of a resource that asks for the former size.
const disagreement = "is 64Mi, and the StatefulSet has 128Mi"

// resumedContent returns the content of the MariaDB without its pause.
func resumedContent(w *kit.World, row owners.Row) map[string]any {
	resumed := content(w.Custom(row, "MariaDB", "main"))
	resumed["spec"].(map[string]any)["suspend"] = false
	resumed["annotations"] = map[string]string(nil)
	return resumed
}

// expectPauseLasts ticks some times, and expects that the MariaDB stays paused with its former size.
func expectPauseLasts(t *testing.T, w *kit.World, drive *kit.Drive, row owners.Row) {
	t.Helper()
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if size := sizeOf(w, row); !row.Paused(w.Custom(row, "MariaDB", "main")) || size != "64Mi" {
		t.Fatalf("the pause has ended, or the owner was changed. It says %s", size)
	}
}

// TestSecondRequestKeepsOwnerPaused: a request that is refused while the pause lasts replaces the record of the resize. The pause lasts,
// and the new record says why.
// Invariants: I5.
func TestSecondRequestKeepsOwnerPaused(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "storage=256Mi@nvme"})
	w.Eventually("the request is refused", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Refused || !strings.Contains(status.OwnerProblem, disagreement) {
			return string(status.Phase) + ": " + status.OwnerProblem
		}
		return ""
	})
	expectPauseLasts(t, w, drive, row)
	setSize(w, row, "128Mi")
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	if status := w.Status("web"); status.Phase != api.Refused || status.OwnerProblem != "" {
		t.Errorf("the record is %s and still says %q", status.Phase, status.OwnerProblem)
	}
}

// TestOwnerGetsTheNewSizeFromUser: kubectl drydock resize --update-owner writes the size with the rights of the user, and Drydock then ends
// the pause.
// Invariants: I5.
func TestOwnerGetsTheNewSizeFromUser(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	if said, err := command(t, w, "resize", "sts/web", "--update-owner"); err == nil || !strings.Contains(said, disagreement) ||
		sizeOf(w, row) != "64Mi" {
		t.Errorf("the user has not consented, and the owner says %s: %v\n%s", sizeOf(w, row), err, said)
	}
	said, err := command(t, w, "resize", "sts/web", "--update-owner", "--yes")
	if err != nil || !strings.Contains(said, disagreement) || sizeOf(w, row) != "128Mi" {
		t.Fatalf("the owner says %s: %v\n%s", sizeOf(w, row), err, said)
	}
	if !row.Paused(w.Custom(row, "MariaDB", "main")) {
		t.Error("the command has ended the pause, which pause-owner does")
	}
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	_, err = command(t, w, "resize", "sts/web", "--update-owner", "--yes")
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("nothing is left to change: %v", err)
	}
}

// TestSetsOfOneOwnerShareItsSize: the owner has one size for two sets. Neither Drydock nor the command writes it until both sets have the
// same one.
// Invariants: I5.
func TestSetsOfOneOwnerShareItsSize(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToUpdate))
	w.CreateSet(kit.WorldSet("db", 1, "64Mi", "storage"))
	w.SetController("db", w.Custom(row, "MariaDB", "main"))
	w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerUpdate)})
	expectPauseLasts(t, w, drive, row)
	const remedy = "sts/db storage=128Mi"
	if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, remedy) {
		t.Errorf("the record says %q", problem)
	}
	if said, err := command(t, w, "resize", "sts/web", "--update-owner", "--yes"); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("the command ends with %v\n%s", err, said)
	}
	w.Annotate("db", map[string]string{api.ResizeAnnotation: "storage=128Mi"})
	expectPhase(t, w.Finish(drive, "db"), api.Succeeded)
	expectResumed(t, w, drive, row, "MariaDB", resumedContentWith(w, row, "128Mi"))
}

// resumedContentWith is resumedContent with the size.
func resumedContentWith(w *kit.World, row owners.Row, size string) map[string]any {
	resumed := resumedContent(w, row)
	_ = unstructured.SetNestedField(resumed["spec"].(map[string]any), size, sizeOfMariaDB[1:]...)
	return resumed
}

// TestOwnerGetsTheNewSizeFromDrydock: with the policy update, no user has to act, if the namespace consents to changes of its owners. With
// ignore, the pause ends as it is.
// Invariants: I5.
func TestOwnerGetsTheNewSizeFromDrydock(t *testing.T) {
	t.Parallel()
	for policy, size := range map[api.OwnerPolicy]string{api.OwnerUpdate: "128Mi", api.OwnerIgnore: "64Mi"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, drive, row := disagreeingWorld(t)
			w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(policy)})
			if policy == api.OwnerUpdate {
				expectPauseLasts(t, w, drive, row)
				const consent = "drydock.dev/pause-owners=update --overwrite"
				if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, consent) {
					t.Errorf("the namespace consents to pauses only, and the record says %q", problem)
				}
				w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToUpdate))
			}
			w.Eventually("the pause ends", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if row.Paused(w.Custom(row, "MariaDB", "main")) {
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
