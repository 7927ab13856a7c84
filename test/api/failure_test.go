//go:build cluster

package api

import (
	"context"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// Invariants: I1.
func TestFailedCopyLeavesSetUnchanged(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)

	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || status.Message == "" {
		t.Errorf("%s: %q", status.Reason, status.Message)
	}
	expectSize(t, w, "64Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	expectEvents(t, w, "web", "Warning CopyFailed")

	w.Node.Set(func(n *kit.Node) { n.FailMovers = false })
	w.Retry("web")
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// Invariants: I2, I7.
func TestRepeatedAndReorderedEventsChangeNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	drive.Shuffle = 7
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}
