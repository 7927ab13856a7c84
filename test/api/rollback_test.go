//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// resizedWorld returns a world with a set whose two claims were copied to larger volumes.
func resizedWorld(t *testing.T) (*kit.World, *kit.Drive, *api.Resize) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	done := w.Finish(drive, "web")
	expectPhase(t, done, api.Succeeded)
	return w, drive, done
}

// rollBack requests a rollback of the operation, and returns the record of its end.
func rollBack(t *testing.T, w *kit.World, drive *kit.Drive, done *api.Resize) *api.Resize {
	t.Helper()
	for _, move := range done.Moves() {
		w.Node.AcceptOldData(move.Claim, move.OldVolume)
	}
	if text, err := command(t, w, "rollback", "sts/web", "--yes"); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var status *api.Resize
	w.Eventually("the rollback ends", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status = w.Status("web"); status == nil {
			return "the set is being created again"
		}
		if status.Operation == done.Operation || !status.Phase.Terminal() {
			return fmt.Sprintf("operation %s, phase %s: %s", status.Operation, status.Phase, status.Message)
		}
		return ""
	})
	return status
}

func expectOn(t *testing.T, w *kit.World, volumes map[string]string) {
	t.Helper()
	for claim, volume := range volumes {
		if on := w.Claim(claim).Spec.VolumeName; on != volume {
			t.Errorf("claim %s is on volume %s, want %s", claim, on, volume)
		}
	}
}

func volumesOf(status *api.Resize) (before, after map[string]string) {
	before, after = map[string]string{}, map[string]string{}
	for _, move := range status.Moves() {
		before[move.Claim], after[move.Claim] = move.OldVolume, move.NewVolume
	}
	return before, after
}

// TestRollbackToOldVolumes: the set has its old volumes and its old template, and no operation follows. The volumes
// that the rollback has replaced can be restored, too.
// Invariants: I1.
func TestRollbackToOldVolumes(t *testing.T) {
	w, drive, done := resizedWorld(t)
	before, after := volumesOf(done)
	text, err := command(t, w, "rollback", "sts/web")
	if err != nil || !strings.Contains(text, before["data-web-1"]) {
		t.Fatalf("%s: %v", text, err)
	}
	if _, asked := w.Set("web").Annotations[api.RollbackAnnotation]; asked {
		t.Fatal("it was asked for without --yes")
	}

	back := rollBack(t, w, drive, done)
	expectPhase(t, back, api.Succeeded)
	if !back.IsRollback() {
		t.Errorf("kind %s", back.Kind)
	}
	expectOn(t, w, before)
	expectSize(t, w, "64Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	if size := w.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "64Mi" {
		t.Errorf("the template asks for %s", size)
	}
	for claim, name := range after {
		if v := volume(w, name); v == nil || v.Annotations[api.RetainedUntilAnnotation] == "" ||
			v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Errorf("the volume %s that claim %s had is not kept: %v", name, claim, v)
		}
	}
	for claim, name := range before {
		if v := volume(w, name); v == nil || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			v.Labels[api.OperationLabel] != "" {
			t.Errorf("volume %s, which claim %s has again, has changed: %v", name, claim, v)
		}
	}

	w.Scale("web", 3)
	w.Eventually("the third replica runs", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if ready := w.Set("web").Status.ReadyReplicas; ready != 3 {
			return fmt.Sprintf("%d replicas are ready", ready)
		}
		return ""
	})
	for range 3 {
		must(t, drive.Tick(context.Background()))
	}
	if now := w.Status("web"); now.Operation != back.Operation {
		t.Fatalf("operation %s has begun without a request", now.Operation)
	}
	expectSize(t, w, "64Mi", "data-web-2")

	again := rollBack(t, w, drive, back)
	expectPhase(t, again, api.Succeeded)
	expectOn(t, w, after)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectSize(t, w, "64Mi", "data-web-2")
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

// TestAbortedRollbackChangesNothing: after an abort at any write the set has its volumes, and the old ones are
// retained.
// Invariants: I1.
func TestAbortedRollbackChangesNothing(t *testing.T) {
	for k := 1; k <= 10; k += 3 {
		t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
			w, _, done := resizedWorld(t)
			before, after := volumesOf(done)
			saboteur := &kit.Saboteur{}
			saboteur.OnWrite = func(string) {
				if len(saboteur.Writes()) == k {
					w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
				}
			}
			drive := w.Drive(saboteur)
			w.Annotate("web", map[string]string{api.RollbackAnnotation: done.Operation})
			var status *api.Resize
			w.Eventually("the rollback ends", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if status = w.Status("web"); status.Operation == done.Operation || !status.Phase.Terminal() {
					return fmt.Sprintf("operation %s, phase %s: %s", status.Operation, status.Phase, status.Message)
				}
				return ""
			})
			expectPhase(t, status, api.Failed)
			if status.Reason != api.Aborted {
				t.Errorf("reason %s: %s", status.Reason, status.Message)
			}
			expectOn(t, w, after)
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
			if link := linkOfVolume(w, before["data-web-0"]); link.Operation != done.Operation ||
				link != linkOfVolume(w, before["data-web-1"]) {
				t.Errorf("the old volumes are %+v's, want operation %s's", link, done.Operation)
			}
			for claim, name := range before {
				if v := volume(w, name); v == nil || v.Annotations[api.RetainedUntilAnnotation] == "" ||
					v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
					t.Errorf("the old volume %s of claim %s is not kept: %v", name, claim, v)
				}
			}
		})
	}
}

// linkOfVolume returns operation and role of the volume.
func linkOfVolume(w *kit.World, name string) (is struct {
	Operation string
	Role      api.Role
}) {
	if link, err := api.LoadLink(volume(w, name)); err == nil && link != nil {
		is.Operation, is.Role = link.Operation, link.Role
	}
	return is
}

// TestAbortedRollbackCanBeRequestedAgain: a retry is rejected, another rollback succeeds.
// Invariants: I8.
func TestAbortedRollbackCanBeRequestedAgain(t *testing.T) {
	w, _, done := resizedWorld(t)
	before, _ := volumesOf(done)
	saboteur := &kit.Saboteur{}
	saboteur.OnWrite = func(string) {
		if len(saboteur.Writes()) == 7 { // both volumes are retained
			w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
		}
	}
	drive := w.Drive(saboteur)
	given := rollBack(t, w, drive, done)
	if given.Reason != api.Aborted || given.RollsBack != done.Operation {
		t.Fatalf("%+v", given)
	}
	if _, err := command(t, w, "retry", "sts/web"); err == nil || !strings.Contains(err.Error(), "rollback -n "+w.Namespace) {
		t.Errorf("a retry answers %v", err)
	}
	given.Members = nil // the claims to roll back are the same
	status := rollBack(t, w, drive, given)
	expectPhase(t, status, api.Succeeded)
	expectOn(t, w, before)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestRefusedRollbackKeepsRecord: an Event has the reason, and the record of the resize stays.
// Invariants: I8.
func TestRefusedRollbackKeepsRecord(t *testing.T) {
	w, drive, done := resizedWorld(t)
	for name, row := range map[string]struct {
		operation, reason string
		before            func()
	}{
		"another operation": {"0123456789ab", "RollbackImpossible", func() {}},
		"the window is over": {done.Operation, "RollbackImpossible", func() {
			for _, move := range done.Moves() {
				patchVolume(t, w, move.OldVolume, fmt.Sprintf(`{"metadata":{"annotations":{%q:"2020-01-01T00:00:00Z"}}}`,
					api.RetainedUntilAnnotation))
			}
		}},
	} {
		row.before()
		w.Annotate("web", map[string]string{api.RollbackAnnotation: row.operation})
		w.Eventually(name+" is refused", func() string {
			if err := drive.Tick(context.Background()); err != nil {
				return err.Error()
			}
			if _, asked := w.Set("web").Annotations[api.RollbackAnnotation]; asked {
				return "the request is still there"
			}
			if events := strings.Join(w.Events("web"), ", "); !strings.Contains(events, "Warning "+row.reason) {
				return events
			}
			return ""
		})
		if status := w.Status("web"); status.Operation != done.Operation || status.Phase != api.Succeeded {
			t.Errorf("%s: the document is of operation %s, %s", name, status.Operation, status.Phase)
		}
	}
}

// TestRollbackAtFullQuota: the quota has no room beside the present claims. A rollback needs none, because it deletes each claim first,
// although the quota refuses the dry run of the claim on the old volume.
func TestRollbackAtFullQuota(t *testing.T) {
	w, drive, done := resizedWorld(t)
	before, _ := volumesOf(done)
	w.CreateQuota(corev1.ResourceRequestsStorage, "256Mi")
	expectPhase(t, rollBack(t, w, drive, done), api.Succeeded)
	expectOn(t, w, before)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestRefusedClaimEndsRollbackBeforeADeletion: a policy forbids claims of the old size since the resize. The rollback fails at once, and
// the set runs on its present volumes.
func TestRefusedClaimEndsRollbackBeforeADeletion(t *testing.T) {
	w, _, done := resizedWorld(t)
	_, after := volumesOf(done)
	uids := map[string]types.UID{}
	for claim := range after {
		uids[claim] = w.Claim(claim).UID
	}
	w.DenyCreation("", "persistentvolumeclaims", "quantity(object.spec.resources.requests.storage).compareTo(quantity('128Mi')) >= 0")
	w.Eventually("the policy is in force", func() string {
		small := w.Claim("data-web-0").DeepCopy()
		small.ObjectMeta = metav1.ObjectMeta{Name: "small"}
		small.Spec.VolumeName, small.Spec.Resources.Requests[corev1.ResourceStorage] = "", resource.MustParse("64Mi")
		if _, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), small,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return "it is not"
		}
		return ""
	})
	back := rollBack(t, w, w.Drive(nil), done)
	expectPhase(t, back, api.Failed)
	if back.Reason != api.Rejected || !strings.Contains(back.Message, "denied by a test") {
		t.Errorf("%s: %s", back.Reason, back.Message)
	}
	expectOn(t, w, after)
	for claim, uid := range uids {
		if now := w.Claim(claim).UID; now != uid {
			t.Errorf("claim %s was deleted", claim)
		}
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}
