//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// failed returns a world after a failed copy. Movers do not fail any more.
func failed(t *testing.T) (*kit.World, *kit.Drive) {
	t.Helper()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	w.Node.Set(func(n *kit.Node) { n.FailMovers = false })
	return w, drive
}

// send delivers an event and every event that follows, without a tick.
func send(t *testing.T, drive *kit.Drive, eventType string, ref events.Ref) {
	t.Helper()
	if err := drive.Send(context.Background(), events.NewFromUser(eventType, ref, "by-hand")); err != nil {
		t.Fatal(err)
	}
	if err := drive.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Invariants: I8.
func TestRetryEventRepeatsFailedOperation(t *testing.T) {
	t.Parallel()
	w, drive := failed(t)
	ref := refOf(w)
	ref.Operation = w.Status("web").Operation
	send(t, drive, events.Retry, ref)
	status := w.Status("web")
	if status.Phase.Terminal() || status.Attempt != 2 {
		t.Fatalf("phase %s, attempt %d: the retry was not taken", status.Phase, status.Attempt)
	}
	send(t, drive, events.Retry, ref) // the same event again
	if again := w.Status("web"); again.Operation != status.Operation {
		t.Errorf("operation %s, then %s", status.Operation, again.Operation)
	}
	status = w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Attempt != 2 {
		t.Errorf("attempt %d", status.Attempt)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// Invariants: I7.
func TestRetryEventWithoutFailureWritesNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	before, writes := w.Set("web"), &kit.Saboteur{}
	drive := w.Drive(writes)
	ref := refOf(w)
	ref.Operation = ""
	send(t, drive, events.Retry, ref)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	send(t, drive, events.Retry, ref) // a request that has not begun cannot have failed
	if made := writes.Writes(); len(made) != 0 || len(drive.EventTypes) != 2 || w.Set("web").Generation != before.Generation {
		t.Errorf("writes %v, events %v", made, drive.EventTypes)
	}
	send(t, drive, events.ResizeRequested, ref)
	if status := w.Status("web"); status == nil {
		t.Error("resize.requested did not make detect-resize look")
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
}

// Invariants: I8.
func TestRetryCommandRepeatsFailedOperation(t *testing.T) {
	t.Parallel()
	w, drive := failed(t)
	operation := w.Status("web").Operation
	out, err := command(t, w, "retry", "sts/web")
	if err != nil || !mentions(out, operation, string(api.CopyFailed)) {
		t.Fatalf("%q, %v", out, err)
	}
	before := w.Set("web")
	if _, err := command(t, w, "retry", "sts/web"); err != nil || w.Set("web").ResourceVersion != before.ResourceVersion {
		t.Errorf("asking twice writes twice, or fails: %v", err)
	}
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, w, "retry", "sts/web"); err == nil || !mentions(err.Error(), w.Namespace+"/web", w.Status("web").Operation) {
		t.Errorf("while the operation runs: %v", err)
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	before = w.Set("web")
	if _, err := command(t, w, "retry", "sts/web"); err == nil ||
		!mentions(err.Error(), w.Namespace+"/web", w.Status("web").Operation, "succeeded") {
		t.Errorf("after a success: %v", err)
	}
	if w.Set("web").ResourceVersion != before.ResourceVersion {
		t.Error("a refused retry has written")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestMisplacedAnnotationIsWarnedAbout: nobody reads requests from pods, claims, Jobs and sets that are not opted in.
func TestMisplacedAnnotationIsWarnedAbout(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	must(t, w.CreateScaler("web", v1alpha1.ScalerSpec{Target: "web"}))
	foreign := kit.WorldSet("foreign", 0, "64Mi", "data")
	delete(foreign.Labels, api.ManagedLabel)
	w.CreateSet(foreign)
	if said, err := kubectl(t, w, "create", "job", "copy", "--image=none"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	onSet := "Write it on the StatefulSet: kubectl annotate -n " + w.Namespace + " sts "
	for _, row := range []struct {
		object, annotation string
		warning            string // empty: none
	}{
		{"pod/web-0", "drydock.dev/retry=now", "drydock.dev/retry has no effect on a Pod. " + onSet +
			"web drydock.dev/retry=now. The retry of a failed scaling belongs on its Scaler"},
		{"pod/web-0", "drydock.dev/retry=now", ""}, // nothing changes
		{"pod/web-0", "drydock.dev/retry=again", "drydock.dev/retry has no effect on a Pod"},
		{"pvc/data-web-0", "drydock.dev/retry=", onSet + "NAME drydock.dev/retry=. The retry"},
		{"pvc/data-web-0", "drydock.dev/resize=data=1Gi", "drydock.dev/resize has no effect on a PersistentVolumeClaim"},
		{"pvc/data-web-0", "drydock.dev/resize=data=1Gi\nlogs=1Gi", "this annotation has no effect on this object"},
		{"pvc/data-web-0", "drydock.dev/replica-of=data-web-1", ""},
		{"job/copy", "drydock.dev/abort=now", onSet + "NAME drydock.dev/abort=now"},
		{"sts/foreign", "drydock.dev/retry=now", "not opted in: give it the label drydock.dev/managed=true"},
		{"sts/web", "drydock.dev/retry=now", ""},
		{"sts/web", "drydock.dev/abort=now", ""},
		{"scaler/web", "drydock.dev/rollback=x", "drydock.dev/rollback has no effect on a Scaler. " + onSet + "NAME drydock.dev/rollback=x"},
		{"scaler/web", "drydock.dev/retry=now", ""},
	} {
		said, err := kubectl(t, w, "annotate", "--overwrite", row.object, row.annotation)
		if err != nil {
			t.Fatalf("%s on %s: %v: %s", row.annotation, row.object, err, said)
		}
		if row.warning == "" {
			if strings.Contains(said, "Warning") {
				t.Errorf("%s on %s: %s", row.annotation, row.object, said)
			}
			continue
		}
		expectMentions(t, said, "Warning: ", "drydock-misplaced'", row.warning)
	}
}
