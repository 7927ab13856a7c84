//go:build cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/stage"
)

// TestAttributesChangeUnderRunningPods: a real driver changes its volumes while the pods write. An unsupported change
// is reverted.
func TestAttributesChangeUnderRunningPods(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Patience = 7 * time.Minute // csi-resizer waits up to five minutes between two tries
	set := writing(stage.Workload("64Mi"))
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.CloudClass)
	s.CreateSet(set)
	s.AwaitReady(t)
	before := podsOf(t, s)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi%read-ahead-large"})
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded || len(status.Members) > 0 {
		t.Fatalf("%s, %d members moved: %s", status.Phase, len(status.Members), status.Message)
	}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		claim := s.Claim(name)
		volume := volumeOf(t, s, claim.Spec.VolumeName)
		if statefulset.CurrentAttributes(claim) != "read-ahead-large" ||
			ptr.Deref(volume.Spec.VolumeAttributesClassName, "") != "read-ahead-large" {
			t.Errorf("claim %s has attributes %q, its volume %v", name, statefulset.CurrentAttributes(claim),
				volume.Spec.VolumeAttributesClassName)
		}
		if has := claim.Status.Capacity.Storage().String(); has != "96Mi" {
			t.Errorf("claim %s has %s", name, has)
		}
	}
	if after := podsOf(t, s); after != before {
		t.Errorf("pods: %s, were %s", after, before)
	}
	for _, pod := range []string{"web-0", "web-1"} {
		expectEveryLine(t, s, pod)
	}
	if is := s.Set("web").Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName; ptr.Deref(is, "") != "read-ahead-large" {
		t.Errorf("the template has attributes %v", is)
	}
	s.ExpectNothingLeft(t)
}

// TestMembersAreHeldWhileRealDriverGrowsTheirVolumes: the driver does not expand an attached volume. One member at a
// time stops, each once. Its data is unchanged and its file system is larger.
func TestMembersAreHeldWhileRealDriverGrowsTheirVolumes(t *testing.T) {
	t.Parallel()
	for _, strategy := range []api.Strategy{api.StrategyRolling, api.StrategyWhole} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			set := writing(stage.Workload("320Mi"))
			set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.OfflineClass)
			set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpandOffline)
			set.Annotations[api.StrategyAnnotation] = string(strategy)
			s.CreateSet(set)
			s.AwaitReady(t)
			claims, size := s.ClaimUIDs(), s.Kibibytes(t)
			drydock(t, s)
			s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=640Mi"})
			status := s.AwaitEnd(t)
			if status.Phase != api.Succeeded || len(status.Members) != 2 {
				t.Fatalf("%s, %d members stopped: %s", status.Phase, len(status.Members), status.Message)
			}
			s.AwaitReady(t)
			if now := s.ClaimUIDs(); now != claims {
				t.Errorf("claims %s, were %s", now, claims)
			}
			if now := s.Kibibytes(t); now < size*3/2 {
				t.Errorf("the file system has %d KiB, had %d", now, size)
			}
			for _, m := range status.Members {
				if m.Stops != 1 {
					t.Errorf("member %d was stopped %d times", m.Ordinal, m.Stops)
				}
				expectEveryLine(t, s, fmt.Sprintf("web-%d", m.Ordinal))
				if m.ReadyAt != nil {
					t.Logf("member %d was away for %s", m.Ordinal, m.ReadyAt.Sub(m.HeldAt.Time))
				}
			}
			if is := s.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); is != "640Mi" {
				t.Errorf("the template asks for %s", is)
			}
			s.ExpectNothingLeft(t)
		})
	}
}

func volumeOf(t *testing.T, s *stage.Stage, name string) *corev1.PersistentVolume {
	t.Helper()
	volume, err := s.Kube.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

// TestAttributesThatRealDriverRefuses: the message quotes the driver, and the claims ask for their previous attributes
// again.
func TestAttributesThatRealDriverRefuses(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	class := s.Namespace + "-colour"
	s.Kubectl(t, "apiVersion: storage.k8s.io/v1\nkind: VolumeAttributesClass\nmetadata: {name: "+class+
		"}\ndriverName: csi.drydock.dev\nparameters: {colour: red}\n", "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl(t, "", "delete", "volumeattributesclass", class, "--wait=false") })
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.CloudClass)
	s.CreateSet(set)
	s.AwaitReady(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi%" + class})
	status := s.AwaitEnd(t)
	if status.Phase != api.Failed || status.Reason != api.AttributesInfeasible || !strings.Contains(status.Message, "no attribute colour") {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		if is := statefulset.AttributesOf(s.Claim(name)); is != "" {
			t.Errorf("claim %s asks for %q", name, is)
		}
	}
	s.ExpectNothingLeft(t)
}
