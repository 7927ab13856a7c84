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
)

// TestTenantCannotPauseOperatorsResource: a StatefulSet can name any resource of its namespace as its controller.
// Drydock writes to the resource only with the consent of the namespace. Annotations of the resource and labels of the set
// are no consent. After the consent, the refused sleep begins by itself, and a retry of the failed resize succeeds.
func TestTenantCannotPauseOperatorsResource(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	w.LabelNamespace(api.PauseOwnersLabel, "")
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{api.PauseOwnersLabel: string(api.ConsentToPause), api.Prefix + "allow": "pause"})
	})
	before := w.Custom(row, "Prometheus", "main")
	idleSet(w, "cache", 1, map[string]string{api.PausedAnnotation: "true", api.PauseOwnersLabel: string(api.ConsentToPause)})
	w.SetController("cache", before)
	drive := w.Drive(nil)
	consent := "kubectl label namespace " + w.Namespace + " drydock.dev/pause-owners=allow"
	status := w.Finish(drive, "web")
	if status.Reason != api.OwnerNotPausable || !strings.Contains(status.Message, consent) || wasStopped(status) {
		t.Errorf("%s: %s", status.Reason, status.Message)
	}
	sleep := w.UntilSleep(drive, "cache", api.Refused)
	if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, consent) {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if diff := cmp.Diff(before.Object, w.Custom(row, "Prometheus", "main").Object); diff != "" {
		t.Errorf("the resource was written to (-before +after):\n%s", diff)
	}
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToPause))
	w.UntilSleep(drive, "cache", api.Asleep)
	w.Annotate("cache", map[string]string{api.PausedAnnotation: "false"})
	sendSetEvent(t, w, drive, events.Wake, "cache")
	w.UntilSleep(drive, "cache", api.Succeeded)
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + ": " + status.Message
		}
		return ""
	})
	expectResumed(t, w, drive, row, "Prometheus", content(before))
}
