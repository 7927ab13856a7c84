package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// engineNamespace is where deploy/standalone runs.
const engineNamespace = "drydock"

// TestDeployedEngineFailsOver runs deploy/standalone as it ships, with its account's rights and no other, and deletes
// the replica that holds the lease in the middle of a resize. It looks after the whole cluster, so no other test runs
// beside it.
func TestDeployedEngineFailsOver(t *testing.T) {
	s := newStage(t)
	s.CreateSet(workload("64Mi"))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.deployEngine(t)
	leader := s.leader(t, "")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.Eventually("the operation is under way", func() string {
		if status := s.Status("web"); status == nil || status.Phase == api.Planned {
			return "it is not"
		}
		return ""
	})
	if err := s.Kube.CoreV1().Pods(engineNamespace).Delete(context.Background(), leader, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if next := s.leader(t, leader); next == leader {
		t.Errorf("replica %s still holds the lease", next)
	}
	s.expectResized(t, before, size, api.Succeeded)
}

// deployEngine applies deploy/standalone with the images of this cluster.
func (s *stage) deployEngine(t *testing.T) {
	t.Helper()
	manifests := s.kubectl(t, "", "kustomize", filepath.Join(kit.Root(t), "deploy", "standalone"))
	for image, local := range map[string]string{"image: drydock-standalone:latest": "image: dev.local/drydock-standalone:dev",
		"DRYDOCK_IMAGE: drydock:latest": "DRYDOCK_IMAGE: " + moverImage} {
		if !strings.Contains(manifests, image) {
			t.Fatalf("deploy/standalone does not say %q", image)
		}
		manifests = strings.ReplaceAll(manifests, image, local)
	}
	t.Cleanup(func() { s.kubectl(t, manifests, "delete", "--ignore-not-found", "-f", "-") })
	s.kubectl(t, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	s.Eventually("both replicas run", func() string {
		d, err := s.Kube.AppsV1().Deployments(engineNamespace).Get(context.Background(), "drydock-standalone", metav1.GetOptions{})
		if err != nil || d.Status.ReadyReplicas != 2 {
			return fmt.Sprintf("%d of 2 (%v)", d.Status.ReadyReplicas, err)
		}
		return ""
	})
}

// leader waits until a replica other than not holds the lease, and returns its pod.
func (s *stage) leader(t *testing.T, not string) string {
	t.Helper()
	holder := ""
	s.Eventually("a replica holds the lease", func() string {
		lease, err := s.Kube.CoordinationV1().Leases(engineNamespace).Get(context.Background(), "drydock-standalone", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Sprintf("none does (%v)", err)
		}
		pods, err := s.Kube.CoreV1().Pods(engineNamespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name) && pod.Name != not {
				holder = pod.Name
				return ""
			}
		}
		return "the holder is " + *lease.Spec.HolderIdentity
	})
	return holder
}
