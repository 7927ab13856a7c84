//go:build cluster

package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

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
		last := pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
		claim := last.PersistentVolumeClaim.ClaimName
		c, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Get(context.Background(), claim, metav1.GetOptions{})
		if err == nil && c.Spec.VolumeName != "" {
			return c.Spec.VolumeName
		}
	}
	t.Fatal("there is no target")
	return ""
}
