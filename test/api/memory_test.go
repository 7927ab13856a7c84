//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit"
)

// TestLargeClaimsStayWithinMemoryOfFunction: only the API server's limit of an object bounds labels, and any user may
// create claims with a set's claim names. Without a bound the function would be killed while it serves other tenants.
func TestLargeClaimsStayWithinMemoryOfFunction(t *testing.T) {
	w := kit.NewWorld(t)
	set := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	createLargeClaims(w, 50, set.Spec.VolumeClaimTemplates[0].Spec)
	detect := kit.StartFunction(t, "detect-resize", kit.APIPath(t), "DRYDOCK_IMAGE="+kit.Settings().Image, "DRYDOCK_ALLOW_TAGS=true")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	e := events.NewChanged(events.Ref{Namespace: w.Namespace, Name: "web", UID: set.UID}, "x", api.DetectResize)
	w.Eventually("the function refuses the event", func() string { // the function may not serve yet, and a busy API server may be too slow
		err := serve.NewSender(detect.Address, nil).Send(t.Context(), e)
		if err == nil || !mentions(detect.Output.String(), "16 MiB") {
			return fmt.Sprintf("%v: %s", err, detect.Output)
		}
		return ""
	})
	expectMemory(t, detect, "the event")
}

// createLargeClaims creates claims of set web, each near the size limit of the API server.
func createLargeClaims(w *kit.World, count int, spec corev1.PersistentVolumeClaimSpec) {
	w.T.Helper()
	labels := map[string]string{}
	for i := range 3800 {
		labels[fmt.Sprintf("%s.%05d/%s", strings.Repeat("a", 200), i, strings.Repeat("k", 40))] = strings.Repeat("v", 60)
	}
	failed := newResults(count)
	for i := range count {
		go func() {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-web-%d", i+1), Labels: labels},
				Spec: *spec.DeepCopy()}
			_, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim, metav1.CreateOptions{})
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			w.T.Fatalf("creating the claims: %v", err)
		}
	}
}
