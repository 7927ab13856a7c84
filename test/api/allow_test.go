//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// TestTenantCannotPauseOperatorsResource: a StatefulSet can name any resource of its namespace as its controller.
// Drydock writes to the resource only with the consent of the resource or of the namespace. After the consent, the refused
// sleep begins by itself, and a retry of the failed resize succeeds.
func TestTenantCannotPauseOperatorsResource(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string]func(*kit.World){
		"the resource allows it": func(w *kit.World) {
			w.UpdateCustom(rowOf(t, "monitoring.coreos.com", "Prometheus"), "Prometheus", "main", func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{api.AllowAnnotation: api.AllowPause})
			})
		},
		"the namespace allows it": func(w *kit.World) { w.LabelNamespace(api.PauseOwnersLabel, api.AllowValue) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, row := ownedWorld(t)
			w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
			before := w.Custom(row, "Prometheus", "main")
			idleSet(w, "cache", 1, map[string]string{api.PausedAnnotation: "true"})
			w.SetController("cache", before)
			drive := w.Drive(nil)
			status := w.Finish(drive, "web")
			if status.Reason != api.OwnerNotPausable || !strings.Contains(status.Message, "drydock.dev/allow=pause") || wasStopped(status) {
				t.Errorf("%s: %s", status.Reason, status.Message)
			}
			sleep := w.UntilSleep(drive, "cache", api.Refused)
			if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, "drydock.dev/pause-owners=allow") {
				t.Errorf("%s: %s", sleep.Reason, sleep.Message)
			}
			if diff := cmp.Diff(before.Object, w.Custom(row, "Prometheus", "main").Object); diff != "" {
				t.Errorf("the resource was written to (-before +after):\n%s", diff)
			}
			allow(w)
			allowed := content(w.Custom(row, "Prometheus", "main"))
			w.UntilSleep(drive, "cache", api.Asleep)
			w.Annotate("cache", map[string]string{api.PausedAnnotation: "false"})
			sendSetEvent(t, w, drive, events.Wake, "cache")
			w.UntilSleep(drive, "cache", api.Succeeded)
			w.Annotate("web", map[string]string{api.RetryAnnotation: "now"})
			w.Eventually("the retry succeeds", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if status := w.Status("web"); status.Phase != api.Succeeded {
					return string(status.Phase) + ": " + status.Message
				}
				return ""
			})
			expectResumed(t, w, drive, row, "Prometheus", allowed)
		})
	}
}
