//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// backupAccount is the account of backup in config/.
const backupAccount = "system:serviceaccount:drydock:backup"

// expectStall ticks until the record is MoverStalled and its message mentions the cause. That has to take less than a minute.
func expectStall(t *testing.T, w *kit.World, drive *kit.Drive, cause ...string) {
	t.Helper()
	begun := time.Now()
	w.Eventually(fmt.Sprintf("the record mentions %q", cause), func() string {
		_ = drive.Tick(context.Background())
		status := w.Status("web")
		if status == nil || status.Reason != api.MoverStalled || !mentions(status.Message, cause...) {
			return describe(status)
		}
		return ""
	})
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	expectEvents(t, w, "web", "Warning MoverStalled")
}

// TestImageThatCannotBePulledIsNamedWithinOneMinute: the operation continues as soon as it can be pulled.
func TestImageThatCannotBePulledIsNamedWithinOneMinute(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.NoImage = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectStall(t, w, drive, "ImagePullBackOff", "dev.local/drydock:dev", "pod web-0")
	if status := w.Status("web"); wasStopped(status) {
		t.Errorf("the set was stopped for a mover that cannot run: %s", describe(status))
	}
	w.Node.Set(func(n *kit.Node) { n.NoImage = false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if stalled := status.Members[0].Stalled; stalled != "" {
		t.Errorf("still stalled: %s", stalled)
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestImageThatIsNeverPulledFailsBeforeStop: a mover that has its node and does not start would not start later either.
func TestImageThatIsNeverPulledFailsBeforeStop(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Settings.StartTimeout = 30 * time.Second
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.NoImage = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(w.Drive(nil), "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || !strings.Contains(status.Message, "ImagePullBackOff") || wasStopped(status) {
		t.Error(describe(status))
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestPodsThatQuotaRefusesAreNamedWithinOneMinute: the quota appears when one of two movers runs, so no preflight can
// find it. The Job has no pod with a status.
func TestPodsThatQuotaRefusesAreNamedWithinOneMinute(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Grant(backupAccount, "list", "events") // a test of an older version may have removed it from the shared account
	w.Settings.StartTimeout = 40 * time.Second
	set := kit.WorldSet("web", 2, "64Mi", "data")
	set.Annotations[api.ResizeParallelismAnnotation] = "1"
	w.CreateSet(set)
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("the first mover runs", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || len(movers(t, w)) == 0 {
			return describe(status)
		}
		return ""
	})
	w.CreateQuota(corev1.ResourceLimitsCPU, "10")
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = false })
	expectStall(t, w, drive, "must specify limits.cpu")
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || !strings.Contains(status.Message, "must specify limits.cpu") || wasStopped(status) {
		t.Error(describe(status))
	}
}

// TestSidecarThatOutlivesCopyBlocksNothing: the end of the copy's own container ends the copy.
func TestSidecarThatOutlivesCopyBlocksNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Sidecar = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}
