package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

func TestI1FailedCopyGivesTheSetBack(t *testing.T) {
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
	w.Annotate("web", map[string]string{api.RetryAnnotation: "now"})
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

func TestAbortWhileCopyingGivesTheSetBack(t *testing.T) {
	t.Parallel()
	w, drive := copying(t)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.Aborted {
		t.Errorf("reason %s", status.Reason)
	}
	if _, there := w.Set("web").Annotations[api.AbortAnnotation]; there {
		t.Error("the abort annotation is still there")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

func TestI4ReplicasPutBackBySomebodyMeanCopyingAgain(t *testing.T) {
	t.Parallel()
	w, drive := copying(t)
	w.Scale("web", 2) // a deployment tool puts them back; the pods write
	w.Eventually("a pod ran meanwhile", func() string {
		if w.Set("web").Status.ReadyReplicas == 0 {
			return "none is ready"
		}
		return ""
	})
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round < 2 {
		t.Errorf("round %d: the stale copy was used", status.Round)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	expectEvents(t, w, "web", "Warning StartedByOthers")
}

func TestI3SetDeletedWhileCopyingIsUndone(t *testing.T) {
	t.Parallel()
	w, drive := copying(t)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	w.Eventually("nothing is left behind", func() string {
		_ = drive.Tick(context.Background())
		if left := w.Leftovers(); len(left) > 0 {
			return left[0]
		}
		return ""
	})
	if w.Set("web") != nil {
		t.Error("a set that its user deleted was created again")
	}
	for _, problem := range w.Whole("data-web-0", "data-web-1") {
		t.Error(problem)
	}
}

func TestI3SetReplacedWhileCopyingIsNotMixedUp(t *testing.T) {
	t.Parallel()
	w, drive := copying(t)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	again := w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	w.Eventually("the operation is undone", func() string {
		_ = drive.Tick(context.Background())
		if left := w.Leftovers(); len(left) > 0 {
			return left[0]
		}
		return ""
	})
	if now := w.Set("web"); now.UID != again.UID || *now.Spec.Replicas != 2 {
		t.Error("the user's new set was touched")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	expectEvents(t, w, "web", "Warning SetReplaced")
}

func TestI1ClaimDeletedByHandWhileCopyingKeepsItsVolume(t *testing.T) {
	t.Parallel()
	w, drive := copying(t)
	volume := w.Claim("data-web-0").Spec.VolumeName
	w.DeleteClaim("data-web-0")
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.ClaimLost {
		t.Errorf("reason %s: %s", status.Reason, status.Message)
	}
	if has, newest := w.Node.Version(volume, "data-web-0"); has != newest-1 && has != newest {
		t.Errorf("volume %s has version %d, the newest is %d", volume, has, newest)
	}
	for _, v := range w.Volumes() {
		if v.Name == volume && v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Errorf("volume %s has policy %s", v.Name, v.Spec.PersistentVolumeReclaimPolicy)
		}
	}
}

func TestOldVolumeGoesWhenItsWindowIsOver(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Settings.Retention = 0
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("only the new volume is there", func() string {
		_ = drive.Tick(context.Background())
		if n := len(w.Volumes()); n != 1 {
			return "there are others"
		}
		return ""
	})
	expectWhole(t, w, "web", 1, "data-web-0")
}

func TestI2EveryEventTwiceAndInDisorderChangesNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	drive.Shuffle = 7
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// copying makes a world whose set is being copied, with the movers held.
func copying(t *testing.T) (*kit.World, *kit.Drive) {
	t.Helper()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Hold = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("movers run", func() string {
		_ = drive.Tick(context.Background())
		status := w.Status("web")
		if status == nil || status.Phase != api.Copying || status.Claims[0].Phase != api.ClaimCopying {
			return "they do not"
		}
		return ""
	})
	return w, drive
}
