package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// TestScalerDrainsMembersBeforeTheyGo runs examples/drain as it is: three members with rows of their own become one that has all of them.
// Then the last one is to go, too, and stays because no member could take its rows.
func TestScalerDrainsMembersBeforeTheyGo(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	drydock(t, s, "--tick", "2s")
	applyDrain(t, s)
	awaitReplicas(s, "store", 3)
	awaitStage(t, s, "idle 3")

	s.Kubectl(t, "", "-n", s.Namespace, "scale", "scaler", "store", "--replicas=1")
	awaitStage(t, s, "idle 1")
	awaitReplicas(s, "store", 1)
	if rows := strings.Fields(s.Exec(t, "store-0", "ls /data/rows")); len(rows) != 3*8 {
		t.Errorf("%d rows are left of 24: %v", len(rows), rows)
	}
	if row := s.Exec(t, "store-0", "cat /data/rows/store-2-7"); row != "row 7 of store-2" {
		t.Errorf("row 7 of store-2 is %q", row)
	}

	s.Kubectl(t, "", "-n", s.Namespace, "scale", "scaler", "store", "--replicas=0")
	awaitStage(t, s, "failed 1")
	if set := s.Set("store"); *set.Spec.Replicas != 1 || !slices.Contains(s.Events("store"), "Warning "+string(api.HookFailed)) {
		t.Errorf("%d replicas, Events %v", *set.Spec.Replicas, s.Events("store"))
	}
	s.Kubectl(t, "", "-n", s.Namespace, "scale", "scaler", "store", "--replicas=2")
	s.Kubectl(t, "", "-n", s.Namespace, "annotate", "scaler", "store", api.RetryAnnotation+"=")
	awaitStage(t, s, "idle 2")
	expectNoHooks(t, s)
}

// applyDrain does what a reader of the example does, with an image that the node has.
func applyDrain(t *testing.T, s *stage.Stage) {
	t.Helper()
	manifests := s.Kubectl(t, "", "kustomize", filepath.Join(kit.Root(t), "examples", "drain"))
	const image = "image: busybox:1.37"
	if n := strings.Count(manifests, image); n != 2 {
		t.Fatalf("examples/drain says %q %d times, want it for the members and for the hook", image, n)
	}
	s.Kubectl(t, strings.ReplaceAll(manifests, image, "image: "+stage.WorkloadImage), "-n", s.Namespace, "apply", "-f", "-")
}

// awaitStage waits until the Scaler is in the stage with so many members.
func awaitStage(t *testing.T, s *stage.Stage, want string) {
	t.Helper()
	s.Eventually("Scaler store is "+want, func() string {
		is := s.Kubectl(t, "", "-n", s.Namespace, "get", "scaler", "store", "-o", "jsonpath={.status.stage} {.status.replicas}")
		if is != want {
			return fmt.Sprintf("it is %s: %s", is, s.Kubectl(t, "", "-n", s.Namespace, "get", "scaler", "store", "-o", "jsonpath={.status.conditions}"))
		}
		return ""
	})
}

// expectNoHooks waits until no Job of a hook is left.
func expectNoHooks(t *testing.T, s *stage.Stage) {
	t.Helper()
	s.Eventually("no Job is left", func() string {
		jobs, err := s.Kube.BatchV1().Jobs(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if n := len(jobs.Items); n > 0 {
			return fmt.Sprintf("%d are there", n)
		}
		return ""
	})
}
