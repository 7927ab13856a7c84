package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

const (
	withFinalizer = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection","example.com/keep"]}}`
	withoutIt     = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection"]}}`
)

// untilHeld drives the functions until the operation waits for the finalizer.
func untilHeld(t *testing.T, w *kit.World, drive *kit.Drive, what string) {
	t.Helper()
	w.Eventually(what, func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || !strings.Contains(status.Message, "example.com/keep") {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
}

// TestSnapshotDuringFirstCopyKeepsTheSetRunning: a finalizer that comes after the preflight is found before anything stops.
func TestSnapshotDuringFirstCopyKeepsTheSetRunning(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdWarm(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the first copy runs", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || status.Reason != api.WarmCopyRunning {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	w.PatchClaim("data-web-0", withFinalizer)
	holdWarm(w, false)
	untilHeld(t, w, drive, "the operation waits for the finalizer")
	for range 3 {
		_ = drive.Tick(context.Background())
	}
	if set := w.Set("web"); ptr.Deref(set.Spec.Replicas, 0) != 1 || set.Labels[api.FrozenLabel] != "" {
		t.Errorf("the set was stopped: %d replicas", ptr.Deref(set.Spec.Replicas, 0))
	}
	expectEvents(t, w, "web", "Warning "+string(api.ForeignFinalizer))

	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestFinalizerBeforeTheSwitchLeavesTheClaimAlone: a deletion cannot be taken back, so it does not begin.
func TestFinalizerBeforeTheSwitchLeavesTheClaimAlone(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	uid := w.Claim("data-web-0").UID
	came := false
	drive.Passed = func(e event.Event) {
		if e.Type() == events.BackupCompleted && !came {
			came = true
			w.PatchClaim("data-web-0", withFinalizer)
		}
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the copies are verified", func() string {
		_ = drive.Tick(context.Background())
		if !came {
			return fmt.Sprintf("status %+v", w.Status("web"))
		}
		return ""
	})
	for range 3 {
		_ = drive.Tick(context.Background())
	}
	if claim := w.Claim("data-web-0"); claim.DeletionTimestamp != nil || claim.UID != uid || len(claim.Finalizers) != 2 {
		t.Errorf("the claim was touched: deleted %v, finalizers %v", claim.DeletionTimestamp, claim.Finalizers)
	}
	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}
