//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestStoppedCleanupHasNotSucceeded: if the container exits with 0 on its stop signal, the kubelet reports its pod as
// succeeded. Whatever has stopped it, the claim stays with its data.
// Invariants: I1.
func TestStoppedCleanupHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "trap 'exit 0' TERM; while :; do sleep 1 & wait; done")
	set.Annotations[api.CleanupOnScaleUpAnnotation] = string(api.OnScaleUpCancel)
	s.CreateSet(set)
	before, claims := s.Data(t), claimUIDs(t, s, "web", 2)
	address := stage.FreeAddress(t)
	drydock(t, s, "--tick", "2s", "--listen", address)
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)

	first := awaitCleaner(s, "")
	s.Eventually("the metrics page counts it as running", func() string {
		page := metricsPage(t, address)
		running, pending := sumOf(t, page, "drydock_cleanup_ordinals", `drydock_state="running"`), sumOf(t, page,
			"drydock_cleanup_ordinals", `drydock_state="pending"`)
		if running != 1 || pending != 0 {
			return linesWith(page, "drydock_cleanup_")
		}
		return ""
	})
	s.Kubectl(t, "", "-n", s.Namespace, "delete", "pod", "web-1", "--wait=false")
	awaitCleaner(s, first) // it is created again
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Fatalf("the claims have UIDs %v, had %v", now, claims)
	}
	s.Scale("web", 2) // this stops it, too
	s.AwaitReady(t)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	if after := s.Data(t); !slices.Equal(after.Sums, before.Sums) {
		t.Errorf("the data is %v, was %v", after.Sums, before.Sums)
	}
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
	s.ExpectNothingLeft(t)
}

// TestCleanupOfFullEmptyDirHasNotSucceeded: the script fills its emptyDir beyond the limit. The kubelet ends the pod, whose container exits
// with 0 on the signal, and reports that it succeeded. No condition of the pod tells of the end. TestCleanupMovesEveryShard is the twin
// whose claims go.
// Invariants: I1.
func TestCleanupOfFullEmptyDirHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "trap 'exit 0' TERM; head -c 8388608 /dev/zero >/scratch/x; while :; do sleep 1 & wait; done")
	set.Annotations[api.CleanupTemplateAnnotation] += `        - name: scratch
          mountPath: /scratch
  volumes:
    - name: scratch
      emptyDir: {sizeLimit: 1Mi}
`
	s.CreateSet(set)
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	expectClaimsKept(t, s, claims, "was ended by its kubelet: Evicted", "EmptyDir")
}

// TestCleanupOnNodeThatShutsDownHasNotSucceeded plays the graceful shutdown of a node: the pod gets the condition of the kubelet, and then
// its container the stop signal, on which it exits with 0. The kubelet reports that the pod succeeded, and does not delete it.
// Invariants: I1.
func TestCleanupOnNodeThatShutsDownHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(cleaned(2, "trap 'exit 0' TERM; while :; do sleep 1 & wait; done"))
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	awaitCleaner(s, "")
	s.Kubectl(t, "", "-n", s.Namespace, "patch", "pod", "web-1", "--subresource=status", "--type=strategic", "-p", `{"status": {"conditions": [
		{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
		"message": "Pod was terminated in response to imminent node shutdown."}]}}`)
	s.Terminate("web-1")
	expectClaimsKept(t, s, claims, "TerminationByKubelet", "imminent node shutdown")
}

// awaitWarning waits for a Warning of Drydock on set web whose message has the words, and returns the message.
func awaitWarning(t *testing.T, s *stage.Stage, words ...string) (message string) {
	t.Helper()
	s.Eventually(fmt.Sprintf("a Warning mentions %q", words), func() string {
		events := story(t, s, "web")
		for _, e := range events {
			if e.Type == corev1.EventTypeWarning && containsAll(e.Message, words) {
				message = e.Message
				return ""
			}
		}
		return fmt.Sprintf("the record is %+v, after %d Events", s.Cleanup("web"), len(events))
	})
	return message
}

// expectClaimsKept waits until a try of ordinal 1 has failed for a reason with the words, aborts the cleanup, and expects the claims. On a
// busy node a container may need longer than its grace period, and is killed. Such a try does not count.
func expectClaimsKept(t *testing.T, s *stage.Stage, claims []types.UID, words ...string) {
	t.Helper()
	awaitWarning(t, s, words...)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	s.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	awaitCleanup(s, "web", api.Failed, api.Aborted)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("after the abort, the claims have UIDs %v, had %v", now, claims)
	}
}

// TestCleanupWithoutItsSuccessMessageHasNotSucceeded: a cleanup pod that exits with 0 and does not write the message of its annotation has
// failed, and is created again. The next one writes the message, and the claim goes.
func TestCleanupWithoutItsSuccessMessageHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "[ ! -e /data/tried ] || echo all moved >/dev/termination-log; touch /data/tried")
	set.Annotations[api.CleanupTemplateAnnotation] = strings.Replace(set.Annotations[api.CleanupTemplateAnnotation], "metadata:\n",
		"metadata:\n  annotations:\n    "+api.SuccessMessageAnnotation+": all moved\n", 1)
	s.CreateSet(set)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
	awaitWarning(t, s, "has not written \"all moved\"", api.SuccessMessageAnnotation)
	s.Eventually("the claim is deleted", func() string {
		if claim := s.Claim("data-web-1"); claim != nil {
			return "it exists"
		}
		return ""
	})
}

// awaitCleaner waits until another cleanup pod of ordinal 1 than the known one runs, and returns its UID.
func awaitCleaner(s *stage.Stage, known types.UID) types.UID {
	var uid types.UID
	s.Eventually("a cleanup pod runs", func() string {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(context.Background(), "web-1", metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case pod.Labels[api.OperationLabel] == "" || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil ||
			pod.UID == known:
			return string(pod.Status.Phase)
		}
		uid = pod.UID
		return ""
	})
	return uid
}
