//go:build cluster

package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// retiredWorld returns a world with a resized set, and its old volume, whose own reclaim policy is policy.
func retiredWorld(t *testing.T, policy corev1.PersistentVolumeReclaimPolicy) (*kit.World, *kit.Drive, string) {
	t.Helper()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	old := w.Claim("data-web-0").Spec.VolumeName
	patchVolume(t, w, old, fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	return w, drive, old
}

func patchVolume(t *testing.T, w *kit.World, name, body string) {
	t.Helper()
	if _, err := w.Kube.CoreV1().PersistentVolumes().Patch(context.Background(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// volume reads a volume. It returns nil if the volume does not exist.
func volume(w *kit.World, name string) *corev1.PersistentVolume {
	for _, v := range w.Volumes() {
		if v.Name == name {
			return &v
		}
	}
	return nil
}

// endWindow ends the retention of the volume.
func endWindow(t *testing.T, w *kit.World, name string) {
	t.Helper()
	patchVolume(t, w, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.RetainedUntilAnnotation,
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)))
}

// released returns the first trace of Drydock on a volume, or an empty string.
func released(v *corev1.PersistentVolume) string {
	for _, key := range []string{api.OperationAnnotation, api.RetainedUntilAnnotation, api.ReclaimPolicyAnnotation,
		api.ClaimManifestAnnotation} {
		if v.Annotations[key] != "" {
			return key + " is still there"
		}
	}
	if v.Labels[api.OperationLabel] != "" {
		return "the label is still there"
	}
	return ""
}

// TestOldVolumeIsRetained: it keeps its data until the end of its retention, and then gets its own reclaim policy back.
// Invariants: I9.
func TestOldVolumeIsRetained(t *testing.T) {
	t.Parallel()
	for policy, stays := range map[corev1.PersistentVolumeReclaimPolicy]bool{corev1.PersistentVolumeReclaimDelete: false,
		corev1.PersistentVolumeReclaimRetain: true} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, drive, old := retiredWorld(t, policy)
			before := volume(w, old)
			until, err := time.Parse(time.RFC3339, before.Annotations[api.RetainedUntilAnnotation])
			finished := w.Status("web").Finished.Time
			if err != nil || until.Before(finished.Add(w.Settings.Retention-time.Minute)) ||
				until.After(finished.Add(w.Settings.Retention)) {
				t.Errorf("kept until %s (%v), finished %s", until, err, finished)
			}
			ticks(t, drive, 3)
			if now := volume(w, old); now == nil || now.ResourceVersion != before.ResourceVersion ||
				now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
				t.Errorf("within its window it was written to: %+v", now)
			}
			endWindow(t, w, old)
			w.Eventually("it has its own policy again", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				now := volume(w, old)
				switch {
				case now == nil && stays:
					t.Fatal("a volume whose policy is Retain is gone")
				case now == nil:
					return ""
				case !stays || now.Spec.PersistentVolumeReclaimPolicy != policy:
					return fmt.Sprintf("it is there: %s", now.Spec.PersistentVolumeReclaimPolicy)
				}
				return released(now)
			})
			for _, problem := range w.ClaimProblems("data-web-0") {
				t.Error(problem)
			}
		})
	}
}

// TestOldVolumeOfDeletedSetIsReleased by the tick.
// Invariants: I9.
func TestOldVolumeOfDeletedSetIsReleased(t *testing.T) {
	t.Parallel()
	w, drive, old := retiredWorld(t, corev1.PersistentVolumeReclaimDelete)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	endWindow(t, w, old)
	w.Eventually("it is gone", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if volume(w, old) != nil {
			return "it is there"
		}
		return ""
	})
}

// TestOldVolumeInUseIsKept: a user reads it through another claim. After its retention it has its own policy again.
// While the claim exists, it stays with its data.
// Invariants: I1, I9.
func TestOldVolumeInUseIsKept(t *testing.T) {
	t.Parallel()
	w, drive, old := retiredWorld(t, corev1.PersistentVolumeReclaimDelete)
	has, _ := w.Node.Version(old, "data-web-0")
	patchVolume(t, w, old, fmt.Sprintf(`{"spec":{"claimRef":{"name":"lookup","namespace":%q,"uid":null,"resourceVersion":null}}}`,
		w.Namespace))
	claim := kit.WorldSet("web", 1, "64Mi", "data").Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name, claim.Spec.VolumeName = "lookup", old
	if _, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("it is bound", func() string {
		if now := w.Claim("lookup"); now.Status.Phase != corev1.ClaimBound {
			return string(now.Status.Phase)
		}
		return ""
	})
	endWindow(t, w, old)
	w.Eventually("it has its policy back", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		now := volume(w, old)
		if now == nil {
			t.Fatal("it is gone")
		}
		if now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			return "it has not"
		}
		return released(now)
	})
	ticks(t, drive, 2)
	if now := volume(w, old); now == nil || now.Status.Phase != corev1.VolumeBound {
		t.Errorf("%+v", now)
	}
	if is, _ := w.Node.Version(old, "data-web-0"); is != has {
		t.Errorf("it has version %d, had %d", is, has)
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestOldVolumePutBackByHandIsResizedAgain: a user follows docs/resize.md. The volume has no retention until the next
// resize.
// Invariants: I1, I9.
func TestOldVolumePutBackByHandIsResizedAgain(t *testing.T) {
	t.Parallel()
	w, drive, old := retiredWorld(t, corev1.PersistentVolumeReclaimDelete)
	fresh := w.Claim("data-web-0").Spec.VolumeName
	w.PatchSet("web", fmt.Sprintf(`{"spec":{"replicas":0},"metadata":{"annotations":{%q:null}}}`, api.ResizeAnnotation))
	untilReady(w, drive, "web", 0)
	patchVolume(t, w, fresh, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	w.DeleteClaim("data-web-0")
	w.Eventually("the claim is gone", func() string {
		if w.Claim("data-web-0") != nil {
			return "it is there"
		}
		return ""
	})
	patchVolume(t, w, old, `{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}`)
	claim := kit.WorldSet("web", 1, "64Mi", "data").Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Name, claim.Spec.VolumeName, claim.Labels = "data-web-0", old, map[string]string{"app": "web"}
	if _, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patchVolume(t, w, fresh, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	w.Node.AcceptOldData("data-web-0", old)
	w.Scale("web", 1)
	untilReady(w, drive, "web", 1)

	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if now := volume(w, old); now == nil || now.Annotations[api.RetainedUntilAnnotation] == "" ||
		now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("it is not kept for a window again: %+v", now)
	}
	expectSize(t, w, "160Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestOldVolumesAreBounded: repeated resizes cannot multiply the storage of a namespace.
func TestOldVolumesAreBounded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		arrange func(*kit.World)
		reason  api.Reason
		says    []string
		mend    func(*kit.World)
	}{
		"by a setting": {arrange: func(w *kit.World) { w.Settings.RetainedVolumes = 1 }, reason: api.TooManyRetained,
			says: []string{"data-web-0", "DRYDOCK_RETAINED_VOLUMES"},
			mend: func(w *kit.World) { w.Settings.RetainedVolumes = 2 }},
		"by a quota of storage": {arrange: func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "250Mi") },
			reason: api.QuotaExceeded,
			says:   []string{"ResourceQuota quota", "250Mi", "old volumes"},
			mend:   func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "1Gi") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			untilReady(w, w.Drive(nil), "web", 1)
			row.arrange(w)
			drive := w.Drive(nil)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=80Mi"})
			expectPhase(t, w.Finish(drive, "web"), api.Succeeded)

			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=112Mi"})
			var status *api.Resize
			w.Eventually("the second resize is refused", func() string {
				_ = drive.Tick(context.Background())
				if status = w.Status("web"); status == nil || status.Phase != api.Refused {
					return describe(status)
				}
				return ""
			})
			if status.Reason != row.reason || !mentions(status.Message, row.says...) {
				t.Fatalf("%s: %s", status.Reason, status.Message)
			}
			row.mend(w)
			drive = w.Drive(nil)
			w.Eventually("there is room again", func() string {
				if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
					return describe(status)
				}
				return ""
			})
			expectWhole(t, w, "web", 1, "data-web-0")
		})
	}
}

// TestProvisionedVolumeWithDataIsNotDeleted: a provisioner may hand out a folder with data, for example by a path
// pattern with the claim's annotations. The mover refuses the volume, and Drydock does not delete it.
// Invariants: I1.
func TestProvisionedVolumeWithDataIsNotDeleted(t *testing.T) {
	t.Parallel()
	for reason, code := range map[moverreport.Reason]int{
		moverreport.ReasonTargetNotEmpty: moverreport.CodeTargetNotEmpty, moverreport.ReasonUsage: moverreport.CodeUsage,
	} {
		t.Run(string(reason), func(t *testing.T) {
			w, drive := readyWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
			holdFirstPass(w, true)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
			untilFirstPasses(t, w, drive, 1)
			target := targetVolume(t, w)
			w.Node.Set(func(n *kit.Node) {
				n.FailMovers, n.Failure = true, moverreport.MemberReport{Code: code, Reason: reason, Message: "there is data"}
			})
			holdFirstPass(w, false)
			expectPhase(t, w.Finish(drive, "web"), api.Failed)
			w.Eventually("nothing of Drydock's is on the volume", func() string {
				_ = drive.Tick(context.Background())
				volume, err := w.Kube.CoreV1().PersistentVolumes().Get(context.Background(), target, metav1.GetOptions{})
				switch {
				case err != nil:
					t.Fatalf("I1: volume %s with foreign data: %v", target, err)
				case volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
					t.Fatalf("I1: volume %s with foreign data is %s", target, volume.Spec.PersistentVolumeReclaimPolicy)
				case volume.Status.Phase != corev1.VolumeReleased || len(volume.Labels) > 0:
					return string(volume.Status.Phase)
				}
				return ""
			})
			if problems := w.ClaimProblems("data-web-0"); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
}

// targetVolume returns the volume that was provisioned for the copy.
func targetVolume(t *testing.T, w *kit.World) string {
	t.Helper()
	for _, pod := range movers(t, w) {
		claim := ""
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil { // the target follows its source
				claim = v.PersistentVolumeClaim.ClaimName
			}
		}
		c, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Get(context.Background(), claim, metav1.GetOptions{})
		if err == nil && c.Spec.VolumeName != "" {
			return c.Spec.VolumeName
		}
	}
	t.Fatal("there is no target")
	return ""
}
