//go:build cluster

package knative

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// cleanupTemplate is a cleanup pod that reads the data of the member, and fails if it is not complete.
const cleanupTemplate = `
metadata:
  labels: {app: cleanup}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: look
      image: dev.local/busybox:1
      command: [sh, -c, "test -e /data/filled && test $(ls /data/small/a | wc -l) = 1000"]
      volumeMounts: [{name: data, mountPath: /data}]
`

// TestCleanupByEvents: the claims of a scale-down are cleaned up, and a deleted set before its deletion. No function
// runs before the events or after them.
func TestCleanupByEvents(t *testing.T) {
	k := setUp(t)
	workload := stage.Workload("64Mi")
	workload.Annotations[api.CleanupTemplateAnnotation] = cleanupTemplate
	k.CreateSet(workload)
	k.awaitCleanup(t, api.Succeeded, api.CleanupReady)
	k.Eventually("its pods are counted", func() string { return k.uncounted("web") })
	kept := k.Claim("data-web-0").UID
	k.awaitRest(t)

	began := time.Now()
	start := began
	k.Scale("web", 1)
	k.awaitCleanup(t, api.Succeeded, api.CleanupCompleted)
	t.Logf("cleaned up %s after the scale-down", time.Since(start).Round(100*time.Millisecond))
	k.Eventually("the claim is gone", func() string { return k.there("data-web-1") })
	if k.Claim("data-web-0").UID != kept {
		t.Error("claim data-web-0 is another one")
	}
	k.ExpectNothingLeft(t)
	k.expectAppeared(t, began, "sift", "scale", "cleanup-pod")

	k.Scale("web", 2) // on a new claim
	k.AwaitReady(t)
	k.Annotate("web", map[string]string{api.CleanupOnDeleteAnnotation: "true"})
	k.Eventually("the set is held", func() string {
		if set := k.Set("web"); !slices.Contains(set.Finalizers, api.CleanupFinalizer) {
			return fmt.Sprint(set.Finalizers)
		}
		return ""
	})
	start = time.Now()
	k.DeleteSet("web", metav1.DeletePropagationBackground)
	t.Logf("the set was gone %s after its deletion", time.Since(start).Round(100*time.Millisecond))
	k.Eventually("its claims are gone", func() string { return k.there("data-web-0") + k.there("data-web-1") })
	k.ExpectNothingLeft(t)
	k.awaitRest(t)
}

func (k *knative) awaitCleanup(t *testing.T, phase api.Phase, reason api.Reason) *api.Cleanup {
	t.Helper()
	k.Eventually(fmt.Sprintf("the cleanup is %s %s", phase, reason), func() string {
		if doc := k.Cleanup("web"); doc == nil || doc.Phase != phase || reason != "" && doc.Reason != reason {
			return fmt.Sprintf("%+v", doc)
		}
		return ""
	})
	return k.Cleanup("web")
}

// uncounted returns "" if the set has a ledger.
func (k *knative) uncounted(name string) string {
	if api.LoadLedger(k.Set(name)) == nil {
		return name + " has no ledger"
	}
	return ""
}

func (k *knative) there(claim string) string {
	if k.Claim(claim) != nil {
		return claim + " is there"
	}
	return ""
}
