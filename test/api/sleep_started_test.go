//go:build cluster

package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// applyReplicas applies replicas like a deployment tool.
func applyReplicas(t *testing.T, w *kit.World, manager, set string, replicas int) {
	t.Helper()
	body := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":%q},"spec":{"replicas":%d}}`, set, replicas)
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: ptr.To(true)})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSleepEndsIfDeploymentToolRestoresReplicas: the next sleep waits, longer each time, and the record names the tool.
func TestSleepEndsIfDeploymentToolRestoresReplicas(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	idleSet(w, "web", 2, nil)
	drive := w.Drive(nil)
	sleepAndHeal := func() *api.Sleep {
		w.Eventually("the set sleeps", func() string {
			if sleep := w.Sleep("web"); sleep != nil && sleep.Phase == api.Asleep {
				return ""
			}
			if err := w.SendSetEvent(drive, events.Sleep, "web"); err != nil {
				return err.Error()
			}
			return "not yet"
		})
		applyReplicas(t, w, "argocd-controller", "web", 2)
		return w.UntilSleep(drive, "web", api.Succeeded)
	}
	if sleep := sleepAndHeal(); sleep.Reason != api.StartedByOthers || !mentions(sleep.Message, "10m0s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	w.Retry("web") // otherwise the next sleep waits for ten minutes
	sleep := sleepAndHeal()
	if sleep.Reason != api.StartedByOthers || !mentions(sleep.Message, `"argocd-controller"`, " 2 ", "20m0s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	w.Annotate("web", map[string]string{api.LastActivityAnnotation: kit.Ago(2 * time.Hour)})
	w.Eventually("the event is of a later second", func() string {
		if time.Since(sleep.Finished.Time) < 2*time.Second {
			return "not yet"
		}
		return ""
	})
	sendSetEvent(t, w, drive, events.Sleep, "web")
	if again := w.Sleep("web"); again.Attempt != sleep.Attempt || *w.Set("web").Spec.Replicas != 2 {
		t.Errorf("it is tried again at once: %+v", again)
	}
	expectAwake(t, w, drive, "web", 2)
}
