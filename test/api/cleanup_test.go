package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// expectClean checks that nothing is left of a cleanup but its document, and that no rule about data was broken.
func expectClean(t *testing.T, w *kit.World, drive *kit.Drive) {
	t.Helper()
	w.Eventually("nothing is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	for _, v := range w.Node.Violations() {
		t.Error(v)
	}
}

// TestCleanupFromTheTop: four replicas become one. Each ordinal is cleaned up, the highest first, and its claims are deleted.
func TestCleanupFromTheTop(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(w.CleanedSet("web", 4, "data", "logs"))
	drive := w.Drive(nil)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupReady)
	w.Scale("web", 1)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	expectClean(t, w, drive)
	if order := w.Node.Cleaned(); !slices.Equal(order, []string{"web-3", "web-2", "web-1"}) {
		t.Errorf("cleaned up in the order %v", order)
	}
	if deleted := w.Node.DeletedClaims(); !slices.Equal(deleted, []string{"data-web-1", "data-web-2", "data-web-3", "logs-web-1", "logs-web-2", "logs-web-3"}) {
		t.Errorf("deleted claims: %v", deleted)
	}
	if !slices.Contains(drive.Seen, "cleanup.completed") {
		t.Errorf("events: %v", drive.Seen)
	}
}
